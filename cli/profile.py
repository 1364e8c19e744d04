"""`energyopt profile`: what each kernel of a workload costs at several clocks."""

import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from energyopt.cli import output
from energyopt.cli import profile_options as options
from energyopt.cli.targets import refuse_overwrite
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.profiler.request import Request
    from energyopt.schemas.profile import Profile


def register(app: typer.Typer) -> None:
    """Add the command `profile`."""
    app.command("profile")(profile)


def profile(
    workload: options.Workload,
    destination: options.Output,
    *,
    device: options.Device = "auto",
    kernels_on: options.KernelsOn = options.KernelsOnName.CUDA,
    power_limit_w: options.PowerLimit = None,
    clocks: options.Clocks = None,
    stages: options.Stages = None,
    chunks: options.Chunks = None,
    layers_per_stage: options.Layers = None,
    microbatch_size: options.Microbatch = None,
    sequence_length: options.Sequence = None,
    tensor_parallel: options.Degree = None,
    context_parallel: options.Degree = None,
    data_parallel: options.Replicas = None,
    dtype: options.Dtype = None,
    recompute: options.Recompute = None,
    attention: options.Attention = None,
    split_backward: options.Split = False,
    sequence_parallel: options.SequenceParallel = None,
    comm_sms: options.CommSms = None,
    overlap: options.Overlap = False,
    search: options.Search = False,
    search_points: options.SearchPoints = None,
    skip_communication: options.SkipCommunication = False,
    budget: options.Budget = None,
    windows: options.Windows = 5,
    window_s: options.WindowS = None,
    warm_up_s: options.WarmUp = None,
    cool_down_s: options.CoolDown = 0.0,
    soak_s: options.Soak = 60.0,
    early_stop: options.EarlyStop = True,
    energy_source: options.Source = options.SourceName.AUTO,
    seed: options.Seed = 0,
    site_lock_mhz: options.SiteLock = None,
    restart: options.Restart = False,
    allow_partial: options.AllowPartial = False,
    as_json: options.Json = False,
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
        "data_parallel": data_parallel,
        "dtype": None if dtype is None else dtype.value,
        "recompute": None if recompute is None else recompute.value,
        "attention": None if attention is None else attention.value,
        "split_backward": split_backward or None,
        "sequence_parallel": sequence_parallel,
        "comm_sms": _counts("--comm-sms", comm_sms),
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
        search=search,
        search_points=search_points,
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
        overlap=overlap or search,
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
    from energyopt.planner.views.measured import measured_tables, measured_to_json, not_held, unusable

    for warning in (unusable(profile), not_held(profile)):
        if warning is not None:
            output.warn(warning)
    if as_json:
        from energyopt.schemas.files import canonical_json

        output.data(canonical_json(measured_to_json(profile)))
        return
    for number, table in enumerate(measured_tables(profile)):
        if number:
            output.data("")
        output.table(table.columns, table.rows, table.title)


_NUMBER = "[0-9]{1,18}"  # longer ones are slips, and some too long to be made a number
_MOST_COUNTS = 1024  # numbers of SMs, and the highest of them: several times what any GPU has


def _numbers(flag: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(rf"{_NUMBER}(,{_NUMBER})*", text):
        raise RequestError(f"{flag} {text!a} is no list of whole numbers, such as 14,14")
    return tuple(int(one) for one in text.split(","))


def _counts(flag: str, text: str | None) -> tuple[int, ...] | None:
    """A list, or LOW:HIGH:STEP."""
    match = re.fullmatch(rf"({_NUMBER}):({_NUMBER}):({_NUMBER})", text or "")
    if match is None:
        found = _numbers(flag, text)
        if found is not None:
            _check_counts(flag, len(found), max(found))
        return found
    low, high, step = map(int, match.groups())
    if not 0 < low <= high or step == 0:
        raise RequestError(f"{flag} {text} is empty: give LOW:HIGH:STEP, the lower count first, all above 0")
    _check_counts(flag, (high - low) // step + 1, high)
    return tuple(range(low, high + 1, step))


def _check_counts(flag: str, number: int, highest: int) -> None:
    """Before anything is built of them."""
    if max(number, highest) > _MOST_COUNTS:
        raise RequestError(
            f"{flag} takes at most {_MOST_COUNTS} counts, each at most {_MOST_COUNTS}, but has {number} "
            f"up to {highest}"
        )


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
