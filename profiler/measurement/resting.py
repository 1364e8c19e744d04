"""What a board draws while it does nothing, and while it waits for a peer."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from energyopt.profiler.benches.interface import Bench, Poll
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.estimation import Rejected, mean_power
from energyopt.profiler.measurement.settings import TICKS_PER_WINDOW, Timing
from energyopt.profiler.measurement.statistics import DRIFT, Estimate, Reading, estimate
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.measurement.window import recorder_for
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import MeasurementError

WINDOWS = 3
SHORTEST_S = 1.0
SETTLE_S = 0.2
WARM_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Powers of one GPU, W; wait power at the highest clock that is profiled."""

    idle_power: Estimate
    wait_power: Estimate


def idle_power(bench: Bench, kernel: Kernel, calibration: Calibration, timing: Timing) -> Estimate:
    """Power of a warm board with no work on it, W; the prepared kernel keeps it warm between windows."""
    return _resting(bench, kernel, bench.sleep, calibration, timing, "idle")


def wait_power(bench: Bench, kernel: Kernel, calibration: Calibration, timing: Timing) -> Estimate:
    """Power of the board while it is blocked on a peer, W; the prepared kernel keeps it warm between windows.

    It is taken at the highest clock, where today's jobs wait: the baseline's waiting then costs what it does today,
    and a plan's waiting at lower clocks is never counted as cheaper than it is.

    Raises:
        MeasurementError: no window could be used; names the last reason.
    """
    return _resting(bench, kernel, bench.wait, calibration, timing, "wait")


def attend_waits(bench: Bench) -> None:
    """Be the peer of another rank's `wait_power`, on a rank that measures nothing."""
    for _ in range(2 * WINDOWS):
        bench.wait(0.0)


def _warm_again(bench: Bench, kernel: Kernel) -> None:
    """In training a board waits between operations, as warm as these make it."""
    bench.run(kernel, max(1, math.ceil(WARM_S / run_time_s(bench, kernel))))


def _resting(
    bench: Bench,
    kernel: Kernel,
    rest: Callable[[float, Poll | None], None],
    calibration: Calibration,
    timing: Timing,
    what: str,
) -> Estimate:
    window_s = max(TICKS_PER_WINDOW * timing.tick_s, SHORTEST_S)
    limit_w = bench.device.identity.power_limit_w
    readings: dict[int, Reading] = {}
    reason = ""
    for number in range(WINDOWS):
        _warm_again(bench, kernel)
        rest(max(timing.warm_up_s, SETTLE_S), None)
        recorder = recorder_for(bench, timing, window_s, calibration.source)
        rest(window_s, recorder)
        power = mean_power(recorder.samples, calibration.source, limit_w, timing.tick_s)
        if isinstance(power, Rejected):
            reason = power.reason
        else:
            readings[number] = Reading(power.power_w, power.error_w, DRIFT * power.power_w)
    if not readings:
        raise MeasurementError(f"the {what} power cannot be measured: {reason}")
    return estimate(readings)
