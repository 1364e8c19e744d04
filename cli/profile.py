"""`energyopt profile`: what each kernel of a workload costs at several clocks."""

import re
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyopt.cli import output
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.profiler.request import Request
    from energyopt.schemas.profile import Profile


class KernelsOn(StrEnum):
    """Where real kernels run."""

    CUDA = "cuda"
    CPU = "cpu"


class Dtype(StrEnum):
    """Types of weights and activations."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class RecomputeName(StrEnum):
    """The names of energyopt.profiler.workloads.job.Recompute."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class AttentionName(StrEnum):
    """The names of energyopt.profiler.workloads.job.AttentionKind."""

    FUSED = "fused"
    UNFUSED = "unfused"


class SourceName(StrEnum):
    """The names of energyopt.profiler.measurement.settings.SourceChoice."""

    AUTO = "auto"
    COUNTER = "counter"
    POWER = "power"


_Workload = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="llama-3.2-3b, llama-3.3-70b, qwen3-1.7b, gpt3-xl, gpt3-175b, a .toml or config.json with Hugging "
        "Face names, or module:function.",
    ),
]
_Output = Annotated[Path, typer.Option("-o", "--output", help="Profile to write.")]
_Device = Annotated[
    str,
    typer.Option(
        metavar="auto|nvml:UUID|nvml:N|sim:NAME",
        help="GPU to measure: CUDA's first (under torchrun each rank's own), one by UUID or CUDA number, or a "
        "simulated one.",
    ),
]
_KernelsOn = Annotated[
    KernelsOn,
    typer.Option(help="cpu times torch on the CPU, to try things out; the energy stays the GPU's."),
]
_PowerLimit = Annotated[float | None, typer.Option(help="Power limit of a simulated GPU, W.")]
_Clocks = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH:STEP",
        help="SM clocks, MHz; also a list (1410,1200), all, or current, which sets none. If not given, 18 from the "
        "highest down to 60 % of it.",
    ),
]
_Stages = Annotated[int | None, typer.Option(min=1, help="Pipeline stages.")]
_Chunks = Annotated[int | None, typer.Option("--chunks", min=1, help="Model chunks on each stage.")]
_Layers = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="Layers of each stage (chunk by chunk); evenly if not given."),
]
_Microbatch = Annotated[int | None, typer.Option(min=1, help="Sequences in a microbatch.")]
_Sequence = Annotated[int | None, typer.Option(min=1, help="Tokens in a sequence.")]
_Degree = Annotated[int | None, typer.Option(min=1, help="GPUs that share a stage this way.")]
_Dtype = Annotated[Dtype | None, typer.Option(help="Type of weights and activations.")]
_Recompute = Annotated[RecomputeName | None, typer.Option(help="What a backward computes again.")]
_Attention = Annotated[
    AttentionName | None, typer.Option(help="Attention's core as one kernel, or as several.")
]
_Split = Annotated[
    bool,
    typer.Option("--split-backward", help="Input and weight gradients apart, for zero-bubble schedules."),
]
_SequenceParallel = Annotated[
    bool | None,
    typer.Option(
        "--sequence-parallel/--no-sequence-parallel", help="With tensor parallelism; on if not given."
    ),
]
_CommSms = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="SM counts to measure communication kernels at, besides."),
]
_SkipCommunication = Annotated[
    bool,
    typer.Option("--skip-communication", help="Leave communication out, where one process has no peers."),
]
_Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Fit the sweep into a time such as 30m: fewer windows, then fewer clocks."
    ),
]
_Windows = Annotated[int, typer.Option(min=2, max=100, help="Windows behind each row, one per round.")]
_WindowS = Annotated[
    float | None,
    typer.Option("--window-s", help="Length of a window, s; ten ticks of the reading if not given."),
]
_WarmUp = Annotated[
    float | None,
    typer.Option("--warm-up-s", help="The kernel runs this long before its window, s; from the tick."),
]
_CoolDown = Annotated[float, typer.Option("--cool-down-s", min=0.0, help="Pause after each window, s.")]
_Soak = Annotated[
    float, typer.Option("--soak-s", min=0.0, help="Longest time to warm the board up first, s.")
]
_EarlyStop = Annotated[
    bool,
    typer.Option(
        "--early-stop/--no-early-stop",
        help="Stop lowering the clock once all effective energies have turned.",
    ),
]
_Source = Annotated[
    SourceName, typer.Option("--energy-source", help="auto takes the counter where it works.")
]
_Seed = Annotated[int, typer.Option(min=0, help="Of the order of kernels, and of a simulated GPU's noise.")]
_Restart = Annotated[bool, typer.Option("--restart", help="Throw away what a stopped run has left.")]
_SiteLock = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH|none",
        help="Locked clocks that your site had set, to be put back at the end; NVML cannot read them.",
    ),
]
_AllowPartial = Annotated[
    bool, typer.Option("--allow-partial", help="Go on without ranks whose GPU cannot be measured or clocked.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command `profile`."""
    app.command("profile")(profile)


def profile(
    workload: _Workload,
    destination: _Output,
    *,
    device: _Device = "auto",
    kernels_on: _KernelsOn = KernelsOn.CUDA,
    power_limit_w: _PowerLimit = None,
    clocks: _Clocks = None,
    stages: _Stages = None,
    chunks: _Chunks = None,
    layers_per_stage: _Layers = None,
    microbatch_size: _Microbatch = None,
    sequence_length: _Sequence = None,
    tensor_parallel: _Degree = None,
    context_parallel: _Degree = None,
    dtype: _Dtype = None,
    recompute: _Recompute = None,
    attention: _Attention = None,
    split_backward: _Split = False,
    sequence_parallel: _SequenceParallel = None,
    comm_sms: _CommSms = None,
    skip_communication: _SkipCommunication = False,
    budget: _Budget = None,
    windows: _Windows = 5,
    window_s: _WindowS = None,
    warm_up_s: _WarmUp = None,
    cool_down_s: _CoolDown = 0.0,
    soak_s: _Soak = 60.0,
    early_stop: _EarlyStop = True,
    energy_source: _Source = SourceName.AUTO,
    seed: _Seed = 0,
    site_lock_mhz: _SiteLock = None,
    restart: _Restart = False,
    allow_partial: _AllowPartial = False,
    as_json: _Json = False,
) -> int:
    """Measure time and energy of a workload's kernels at several SM clocks.

    Under torchrun every rank measures its own GPU and writes a shard, and rank 0 joins them. A run that is stopped
    goes on where it was when the same command is given again. Clocks are given back as they were found, however it
    ends.
    """
    from energyopt.profiler.measurement.settings import Settings, SourceChoice
    from energyopt.profiler.request import Request

    refuse_overwrite(destination, Path(workload))
    shape = {
        "stages": stages,
        "chunks": chunks,
        "layers_per_stage": _numbers("--layers-per-stage", layers_per_stage),
        "microbatch_size": microbatch_size,
        "sequence_length": sequence_length,
        "tensor_parallel": tensor_parallel,
        "context_parallel": context_parallel,
        "dtype": None if dtype is None else dtype.value,
        "recompute": None if recompute is None else recompute.value,
        "attention": None if attention is None else attention.value,
        "split_backward": split_backward or None,
        "sequence_parallel": sequence_parallel,
        "comm_sms": _numbers("--comm-sms", comm_sms),
    }
    settings = Settings(
        clocks_mhz=(),
        windows=windows,
        window_s=_positive("--window-s", window_s),
        warm_up_s=_positive("--warm-up-s", warm_up_s),
        cool_down_s=_finite("--cool-down-s", cool_down_s),
        soak_s=_finite("--soak-s", soak_s),
        budget_s=_seconds(budget),
        early_stop=early_stop,
        source=SourceChoice(energy_source.value),
        seed=seed,
    )
    request = Request(
        workload=workload,
        output=destination,
        shape=shape,
        device=device,
        kernels_on=kernels_on.value,
        clocks=clocks,
        settings=settings,
        power_limit_w=_positive("--power-limit-w", power_limit_w),
        site_lock=site_lock_mhz,
        restart=restart,
        allow_partial=allow_partial,
        skip_communication=skip_communication,
    )
    _run(request, as_json)
    return 0


def _run(request: "Request", as_json: bool) -> None:
    from energyopt.cli.progress import reporting
    from energyopt.profiler.profiling import Voice, run_profile

    # what a user's own code prints is words, not data
    with reporting(time_left=True) as progress, redirect_stdout(sys.stderr):
        found = run_profile(request, Voice(progress=progress, say=output.say, warn=output.warn))
    if found is not None:
        _print(found, as_json)
        output.say(f"wrote {request.output}: {len(found.rows)} rows")


def _print(profile: "Profile", as_json: bool) -> None:
    from energyopt.planner.views.measured import measured_table, measured_to_json, unusable

    if (warning := unusable(profile)) is not None:
        output.warn(warning)
    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(measured_to_json(profile)))
        return
    table = measured_table(profile)
    output.table(table.columns, table.rows, table.title)


def _numbers(flag: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise RequestError(f"{flag} {text!a} is no list of whole numbers, such as 14,14")
    return tuple(int(one) for one in text.split(","))


def _positive(flag: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise RequestError(f"{flag} must be a positive number, not {value}")
    return value


def _finite(flag: str, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise RequestError(f"{flag} must be 0 or a positive number, not {value}")
    return value


_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _seconds(text: str | None) -> float | None:
    """A time such as 90s, 30m or 1.5h, s."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h)", text)
    if match is None or float(match[1]) == 0:
        raise RequestError(f"--budget {text!a} is no time such as 90s, 30m or 1.5h")
    return float(match[1]) * _UNITS_S[match[2]]
