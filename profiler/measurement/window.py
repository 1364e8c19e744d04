"""One window: a kernel repeated on a warm board for a while, and what one run cost, or why that does not count."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from energyopt.applier.devices.interface import UNREPRODUCIBLE, Throttle
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.estimation import Rejected, mean_power
from energyopt.profiler.measurement.samples import Recorder, Samples
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.profile import EnergySource

FEWEST_REPEATS = 3
LOOKS = 10
"""How often the clock and the throttle reasons are looked at in a window, about."""

END_MARGIN = 0.05
"""A window may end this share earlier than expected: its length is extrapolated from a shorter warm-up."""

CLOCK_TOLERANCE = 0.02
"""A clock is held when its median is within this share of the one asked for: two steps of 15 MHz at 1410 MHz."""

MOST_IDLE = 0.005
"""Largest share of a window in which the GPU may wait for the host."""

Agree = Callable[[int], int]
"""Gives the repeats that all ranks of a collective run, from what this one would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window's outcome: per run of the kernel, on one GPU.

    rejected: why it must not be used, None where it may.
    energy_j: None where it could not be read; `rejected` then says why.
    energy_error_j: standard error that the reading itself puts on the energy.
    lost_readings: readings that the driver did not give, or that cannot be true.
    idle_share: share of the window in which the GPU waited for the host.
    tries: windows that were taken until this one, itself among them.
    """

    kernel: str
    sm_clock_mhz: int
    round: int
    time_s: float
    energy_j: float | None
    energy_error_j: float | None
    repeats: int
    achieved_sm_clock_mhz: int | None = None
    temperature_start_c: float | None = None
    temperature_end_c: float | None = None
    throttle: int | None = None
    rejected: str | None = None
    lost_readings: int = 0
    idle_share: float = 0.0
    tries: int = 1

    @property
    def usable(self) -> bool:
        """Whether it counts."""
        return self.rejected is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all windows of a run share.

    sm_clock_mhz: the clock asked for; `held` says whether it was set, or is only how the board was found.
    """

    sm_clock_mhz: int
    round: int
    source: EnergySource
    power_limit_w: float | None
    timing: Timing
    held: bool = True


def measure_window(
    bench: Bench, kernel: Kernel, conditions: Conditions, *, run_s: float | None = None, agree: Agree = int
) -> Window:
    """Warm the board with the kernel, then run it for a window; the kernel must be prepared.

    Args:
        bench: where it runs.
        kernel: what runs.
        conditions: clock, round, energy source and timing.
        run_s: about how long one run takes, where known; found by trying where not.
        agree: makes ranks that run a collective together run it equally often.

    Raises:
        WorkloadError: the kernel fails.
    """
    timing = conditions.timing
    if run_s is None:
        run_s = run_time_s(bench, kernel, agree)
    warm_up = agree(max(1, math.ceil(timing.warm_up_s / run_s)))
    run_s = _warm(bench, kernel, warm_up)
    repeats = agree(max(FEWEST_REPEATS, math.ceil(timing.window_s / run_s)))
    recorder = recorder_for(bench, timing, repeats * run_s, conditions.source)
    elapsed_s = bench.run(kernel, repeats, recorder)
    idle = bench.last_idle_share
    return _window(kernel, conditions, repeats, elapsed_s, recorder.samples, idle)


def _warm(bench: Bench, kernel: Kernel, repeats: int) -> float:
    """Run it so often; how long one run takes, s, by the later half: in the first a clock may still be changing."""
    later = max(1, repeats // 2)
    if repeats > later:
        bench.run(kernel, repeats - later)
    return bench.run(kernel, later) / later


def recorder_for(bench: Bench, timing: Timing, expected_s: float, source: EnergySource) -> Recorder:
    """A recorder for something that starts now and takes about `expected_s`."""
    return Recorder(
        bench.device,
        fine_s=timing.fine_s,
        coarse_s=max(expected_s / LOOKS, timing.fine_s),
        fine_from_s=bench.now_s() + (1 - END_MARGIN) * expected_s - 1.25 * timing.tick_s,
        counter=source is EnergySource.COUNTER,
    )


def _window(
    kernel: Kernel,
    conditions: Conditions,
    repeats: int,
    elapsed_s: float,
    samples: Samples,
    idle_share: float,
) -> Window:
    time_s = elapsed_s / repeats
    power = mean_power(samples, conditions.source, conditions.power_limit_w, conditions.timing.tick_s)
    achieved = round(median(samples.sm_clock_mhz)) if samples.sm_clock_mhz else None
    if isinstance(power, Rejected):
        problem: str | None = power.reason
    else:
        problem = _clock_problem(conditions, achieved, samples.throttle) or _idle_problem(kernel, idle_share)
    known = None if isinstance(power, Rejected) else power
    return Window(
        kernel=kernel.name,
        sm_clock_mhz=conditions.sm_clock_mhz,
        round=conditions.round,
        time_s=time_s,
        energy_j=None if known is None else known.power_w * time_s,
        energy_error_j=None if known is None else known.error_w * time_s,
        repeats=repeats,
        achieved_sm_clock_mhz=achieved,
        temperature_start_c=samples.temperature_c[0] if samples.temperature_c else None,
        temperature_end_c=samples.temperature_c[-1] if samples.temperature_c else None,
        throttle=None if samples.throttle is None else int(samples.throttle),
        rejected=problem,
        lost_readings=sum(samples.lost.values()),
        idle_share=idle_share,
    )


def _idle_problem(kernel: Kernel, idle_share: float) -> str | None:
    """Why a window in which the GPU ran dry is useless; code whose work nobody states may wait by itself."""
    if idle_share <= MOST_IDLE or (kernel.flops == 0 and kernel.memory_bytes == 0):
        return None
    return (
        f"the GPU waited for the host {idle_share:.1%} of the time: the kernel takes longer to launch than to run, "
        "or the host is too busy; raise the microbatch size, or free a core"
    )


def _clock_problem(conditions: Conditions, achieved_mhz: int | None, throttle: Throttle | None) -> str | None:
    """Why the clock makes a window useless: heat or a brake, or a setter whose word was not kept.

    A power cap is neither: whoever asks for that clock in training gets what the cap leaves of it, each time.
    """
    reasons = throttle or Throttle(0)
    if reasons & UNREPRODUCIBLE:
        return f"throttled by {(reasons & UNREPRODUCIBLE).name}"
    if not conditions.held or achieved_mhz is None:
        return None
    asked = conditions.sm_clock_mhz
    if abs(achieved_mhz - asked) <= CLOCK_TOLERANCE * asked:
        return None
    if achieved_mhz < asked and reasons & Throttle.SW_POWER_CAP:
        return None
    return f"asked for {asked} MHz, ran at {achieved_mhz} MHz, and no throttling explains it"
