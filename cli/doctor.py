"""`energyopt doctor`: what can be measured and set here, what to do about the rest, and clocks left behind."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyopt.cli import output
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.applier.devices.interface import Absent
    from energyopt.applier.guard.restore import Outcome
    from energyopt.profiler.doctor.records import BoardReport, Report

FAILED = 1
IN_USE = 2

_GPUS = (
    "GPU",
    "name",
    "driver",
    "MIG",
    "scope",
    "limit W",
    "temperature C",
    "SM clock MHz",
    "throttling now",
)
_WORKS = ("GPU", "clocks MHz", "set by", "energy counter", "power readings")

_Device = Annotated[
    str,
    typer.Option(
        metavar="auto|nvml:UUID|nvml:N|sim:NAME", help="Every GPU here, one of them, or a simulated one."
    ),
]
_Restore = Annotated[
    bool, typer.Option("--restore", help="Give back clocks that a killed run left set, and nothing else.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print what is found as one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command `doctor`."""
    app.command("doctor", short_help="What can be measured and set here, and what to do about the rest.")(
        doctor
    )


def doctor(*, device: _Device = "auto", restore: _Restore = False, as_json: _Json = False) -> int:
    """Look at this machine's GPUs, rights and software; each lack comes with what to do about it.

    Nothing is changed without --restore, which ends with 1 if some GPU could not be given back and with 2 if
    another process still holds one.
    """
    device = device.removeprefix("nvml:")
    return _restore(device, as_json) if restore else _examine(device, as_json)


def _examine(device: str, as_json: bool) -> int:
    from energyopt.profiler.doctor.findings import lacks_of
    from energyopt.profiler.doctor.records import report_to_json
    from energyopt.profiler.doctor.report import examine

    report = examine(device)
    lacks = lacks_of(report)
    if as_json:
        _print_json(report_to_json(report, lacks))
    else:
        _print(report)
        _list("what is missing", [f"{one.subject}: {one.problem}\n  -> {one.remedy}" for one in lacks])
    if not report.boards:
        output.say("no GPU can be read here; planning and --device sim:NAME work without one")
    return 0


def _restore(device: str, as_json: bool) -> int:
    from energyopt.applier.guard.restore import Standing, restore_all
    from energyopt.profiler.doctor.records import outcomes_to_json

    outcomes = restore_all(_uuid(device))
    if as_json:
        _print_json({"journals": outcomes_to_json(outcomes)})
    else:
        _print_journals(outcomes)
    standings = {one.standing for one in outcomes}
    if standings & {Standing.FAILED, Standing.DAMAGED}:
        return FAILED
    return IN_USE if Standing.IN_USE in standings else 0


def _uuid(device: str) -> str | None:
    """Whose journal is asked for; a UUID need not be that of a board that answers."""
    if device == "auto" or device.startswith("GPU-"):
        return None if device == "auto" else device
    if device.startswith("sim:"):
        raise RequestError(
            f"{device} ends with its process, so there is nothing to give back; name a real GPU"
        )
    from contextlib import closing

    from energyopt.applier.devices.nvml import open_nvml

    with closing(open_nvml(device)) as board:
        return board.identity.uuid


def _print(report: "Report") -> None:
    from energyopt.planner.wording import gpus

    if report.boards:
        output.table(_GPUS, [_gpu_row(board) for board in report.boards], gpus(len(report.boards)))
        output.data("")
        output.table(_WORKS, [_works_row(board) for board in report.boards], "what works")
        output.data("")
    _list("this machine", [f"{fact.name}: {fact.found}" for fact in report.facts])
    output.data("")
    _print_journals(report.journals)
    output.data("")


def _print_journals(outcomes: "tuple[Outcome, ...]") -> None:
    entries = [f"{one.uuid or one.path.name}: {one.standing}\n  -> {one.detail}" for one in outcomes]
    _list("clocks left behind", entries)


def _list(title: str, entries: list[str]) -> None:
    """Print sentences, which a table would fold or draw apart; what is foreign in them cannot leave its line."""
    from energyopt.planner.wording import one_line

    lines = [one_line(line) for entry in entries or ["nothing"] for line in entry.split("\n", 1)]
    output.data("\n".join([title, *lines]))


def _gpu_row(board: "BoardReport") -> tuple[str, ...]:
    from energyopt.profiler.doctor.records import throttle_words

    identity, state = board.identity, board.state
    throttle = state.throttle
    return (
        identity.uuid,
        identity.name,
        identity.driver or "-",
        "yes" if identity.mig else "no",
        identity.scope,
        "-" if identity.power_limit_w is None else f"{identity.power_limit_w:.0f}",
        _number(state.temperature_c),
        _number(state.sm_clock_mhz),
        ", ".join(throttle_words(throttle)) or "no" if isinstance(throttle, int) else "-",
    )


def _works_row(board: "BoardReport") -> tuple[str, ...]:
    from energyopt.profiler.doctor.findings import counter_words

    clocks, able = board.clocks_mhz, board.capabilities
    return (
        board.identity.uuid,
        f"{clocks[-1]} to {clocks[0]} ({len(clocks)})" if clocks else "-",
        "no" if able.set_clocks is not None or able.knob is None else str(able.knob),
        counter_words(board.counter),
        str(board.identity.power_meaning) if able.power is None else "no",
    )


def _number(value: "float | Absent") -> str:
    return f"{value:.0f}" if isinstance(value, int | float) else "-"


def _print_json(value: dict[str, Any]) -> None:
    from energyopt.schemas.files import canonical_json

    output.data(canonical_json(value))
