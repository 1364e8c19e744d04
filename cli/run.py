"""`energyopt run`: a training command with the shim in each of its Python processes."""

import errno
import math
import os
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from energyopt.cli import output
from energyopt.schemas.errors import RequestError


class RunMode(StrEnum):
    """What the shim does."""

    APPLY = "apply"
    OBSERVE = "observe"


_Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file to run.")]
_Command = Annotated[
    list[str],
    typer.Argument(metavar="-- COMMAND...", help="Training command, such as torchrun ... train.py."),
]
_Mode = Annotated[RunMode, typer.Option(help="Set clocks, or measure alone and set nothing.")]
_Telemetry = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for what is measured: a shard for each rank, for merge and verify."
    ),
]
_Every = Annotated[
    int, typer.Option("--sample-every", min=1, metavar="K", help="Measure every K-th iteration.")
]
_Device = Annotated[
    str | None,
    typer.Option(
        help="GPU of a run of one rank, as profile takes it, or none. If not given, the rank's own."
    ),
]
_Slowdown = Annotated[
    float,
    typer.Option(min=1.0, help="Slowest alternative of the plan to start with, as a multiple of its time."),
]
_SlowdownFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Where an operator may write a slowdown (such as 1.1) while the job runs."
    ),
]
_SiteLock = Annotated[
    str | None,
    typer.Option(
        "--site-lock-mhz",
        metavar="LOW:HIGH",
        help="Locked clocks that your site had set, to be put back at the end, or none; NVML cannot read them.",
    ),
]
_Latency = Annotated[
    float | None,
    typer.Option(
        "--switch-latency-s",
        min=0.0,
        help="How far ahead of an operation its clock is asked for, s. If not given, as measured.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command `run`."""
    app.command("run")(run)


def run(
    plan: _Plan,
    command: _Command,
    *,
    mode: _Mode = RunMode.APPLY,
    telemetry: _Telemetry = None,
    sample_every: _Every = 10,
    device: _Device = None,
    slowdown: _Slowdown = 1.0,
    slowdown_file: _SlowdownFile = None,
    site_lock_mhz: _SiteLock = None,
    switch_latency_s: _Latency = None,
) -> int:
    """Run a training command with a plan: its clocks are set while it trains, and given back however it ends.

    The command takes this process's place, so that signals and exit codes are its own. Megatron-Core, DeepSpeed,
    torch.distributed.pipelining, Lightning, Accelerate and Transformers are hooked when they are imported. A rank
    where something does not fit says so once, and trains on without the plan.
    """
    from energyopt.applier.devices.site_lock import parse_site_lock
    from energyopt.applier.runtime.settings import Mode, Settings, training_device

    _check_plan(plan, slowdown)
    parse_site_lock(site_lock_mhz)
    if switch_latency_s is not None and not math.isfinite(switch_latency_s):
        raise RequestError(f"--switch-latency-s is {switch_latency_s}; it takes a number of seconds")
    program = shutil.which(command[0])
    if program is None:
        raise RequestError(f"cannot run {command[0]}: no such program")
    settings = Settings(
        plan=plan,
        mode=Mode(mode),
        telemetry=telemetry,
        sample_every=sample_every,
        device=training_device(device, "--device"),
        slowdown=slowdown,
        slowdown_file=slowdown_file,
        site_lock_mhz=site_lock_mhz,
        switch_latency_s=switch_latency_s,
    )
    output.say(
        f"energyopt: {'applies' if mode is RunMode.APPLY else 'observes'} {plan} in: {' '.join(command)}"
    )
    sys.stdout.flush()
    _become(program, command, environment_for(settings.to_environment(), os.environ))


def _check_plan(plan: Path, slowdown: float) -> None:
    from energyopt.schemas.plan import read_plan

    loaded = read_plan(plan)
    if not math.isfinite(slowdown):
        raise RequestError(f"--slowdown is {slowdown}; it takes a number of at least 1, such as 1.1")
    if slowdown > 1.0 and not loaded.alternatives:
        raise RequestError(
            f"{plan} has no alternatives to slow down to; write it with energyopt apply --alternatives"
        )


def _become(program: str, command: list[str], environment: dict[str, str]) -> NoReturn:
    """Let the command take this process's place."""
    try:
        os.execve(program, command, environment)
    except OSError as error:
        advice = "; a script needs a first line such as #!/bin/sh" if error.errno == errno.ENOEXEC else ""
        raise RequestError(f"cannot run {program}: {error.strerror}{advice}") from error


def environment_for(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The command's environment: the shim's settings, and its start in front of PYTHONPATH.

    Settings of an outer run are not kept: what is not asked for now is not wanted.
    """
    from energyopt.applier.launch import inject
    from energyopt.applier.runtime.settings import VARIABLES

    folder = str(Path(next(iter(inject.__path__))).resolve())
    earlier = environment.get("PYTHONPATH")
    kept = {name: value for name, value in environment.items() if name not in VARIABLES.values()}
    return kept | dict(settings) | {"PYTHONPATH": os.pathsep.join(filter(None, (folder, earlier)))}
