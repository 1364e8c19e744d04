"""How long a sweep takes, and how to fit it into a time: fewer looks first, then fewer clocks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.settings import (
    LEAST_TICKS,
    SHORTEST_WINDOW_S,
    TICKS_PER_WINDOW,
    Settings,
    Timing,
)
from energyopt.profiler.measurement.statistics import DRIFT, NORMAL_QUANTILE
from energyopt.profiler.measurement.warming import TRIAL_S
from energyopt.profiler.measurement.window import FEWEST_REPEATS
from energyopt.schemas.errors import RequestError
from energyopt.schemas.intervals import half_width

FEWEST_CLOCKS = 4
PREPARE_S = 0.02
"""Time to allocate a kernel's tensors, about."""

LEAST_NOISE = 0.004
"""Relative standard deviation from window to window that a pilot run cannot show: a board at its power limit, where
the pilot runs, has a constant power, and speed differs from run to run."""

RETRIES = 0.02
"""Share of windows that are taken again, about."""

_LADDER = ((5, 10), (4, 8), (3, 7), (3, 5), (2, 5))
"""Windows behind a row, and ticks in a window: from the default down to the least that still gives an error bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What will be measured, how long that takes and how well it will be known.

    window_error: standard deviation of the energy that one window gives, relative, as far as it can be foreseen.
    expected_error: half the 95 % interval of one kernel's energy, relative.
    """

    clocks_mhz: tuple[int, ...]
    windows: int
    timing: Timing
    duration_s: float
    window_error: float
    expected_error: float | None

    def __str__(self) -> str:
        clocks = f"{len(self.clocks_mhz)} clock{'' if len(self.clocks_mhz) == 1 else 's'}"
        error = (
            ""
            if self.expected_error is None
            else f", energy of a kernel to about +-{self.expected_error:.2%} (95 %)"
        )
        return (
            f"{clocks} x {self.windows} windows of {self.timing.window_s:.3g} s, about "
            f"{_duration(self.duration_s)}{error}"
        )


def plan_sweep(
    clocks_mhz: tuple[int, ...],
    settings: Settings,
    timing: Timing,
    calibration: Calibration,
    run_s: Mapping[str, float],
    beside_s: float = 0.0,
) -> SweepPlan:
    """The settings as they are, or what of them fits into `settings.budget_s`.

    Args:
        clocks_mhz: all clocks asked for, highest first.
        settings: the user's choices.
        timing: windows and warm-up for this board.
        calibration: for the expected error.
        run_s: time of one run of each kernel at the highest clock, s.
        beside_s: what the budget must hold besides the sweep, s.

    Raises:
        RequestError: not even the shortest sweep fits; says how long that one takes.
    """
    whole = _plan(clocks_mhz, settings.windows, timing, calibration, run_s)
    if settings.budget_s is None or whole.duration_s + beside_s <= settings.budget_s:
        return whole
    shortest = whole
    for clocks, windows, ticks in _choices(clocks_mhz, settings):
        window_s = settings.window_s or max(ticks * timing.tick_s, SHORTEST_WINDOW_S)
        shorter = replace(timing, window_s=max(window_s, LEAST_TICKS * timing.tick_s))
        shortest = _plan(clocks, windows, shorter, calibration, run_s)
        if shortest.duration_s + beside_s <= settings.budget_s:
            return shortest
    raise RequestError(
        f"a budget of {_duration(settings.budget_s)} is too short: {len(run_s)} kernels at "
        f"{len(shortest.clocks_mhz)} clocks take {_duration(shortest.duration_s)} at least, and calibrating and "
        f"warming up {_duration(beside_s)}"
    )


def _choices(clocks_mhz: tuple[int, ...], settings: Settings) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Ever shorter sweeps: shorter rows first, then every second clock with short rows, every third, ..."""
    for windows, ticks in _LADDER[:-1]:
        yield clocks_mhz, min(windows, settings.windows), min(ticks, TICKS_PER_WINDOW)
    fewest = min(FEWEST_CLOCKS, len(clocks_mhz))
    for count in range(len(clocks_mhz) - 1, fewest - 1, -1):
        yield thinned(clocks_mhz, count), min(3, settings.windows), 5
    yield thinned(clocks_mhz, fewest), min(2, settings.windows), 5


def thinned(clocks_mhz: Sequence[int], count: int) -> tuple[int, ...]:
    """That many of the clocks, evenly spread, the highest and the lowest among them."""
    if count >= len(clocks_mhz):
        return tuple(clocks_mhz)
    last = len(clocks_mhz) - 1
    return tuple(clocks_mhz[round(index * last / (count - 1))] for index in range(count))


def sweep_s(clocks_mhz: Sequence[int], windows: int, timing: Timing, run_s: Mapping[str, float]) -> float:
    """How long a sweep takes at most, s: windows last as long at every clock, but for kernels longer than them."""
    slower = [max(clocks_mhz) / clock for clock in clocks_mhz]
    runs_s = [one * factor for one in run_s.values() for factor in slower]
    first_s = sum(TRIAL_S + 2 * one for one in runs_s)  # each is timed when it is met first
    return first_s + windows * sum(_visit_s(timing, one) for one in runs_s) * (1 + RETRIES)


def _visit_s(timing: Timing, run_s: float) -> float:
    """One window of one kernel with what goes before and after it, s; each is at most one run longer than asked."""
    window_s = max(timing.window_s + run_s, FEWEST_REPEATS * run_s)
    return window_s + timing.warm_up_s + run_s + timing.cool_down_s + PREPARE_S


def _plan(
    clocks_mhz: tuple[int, ...],
    windows: int,
    timing: Timing,
    calibration: Calibration,
    run_s: Mapping[str, float],
) -> SweepPlan:
    error = _window_error(timing, calibration)
    half = half_width(error, windows)
    return SweepPlan(
        clocks_mhz=clocks_mhz,
        windows=windows,
        timing=timing,
        duration_s=sweep_s(clocks_mhz, windows, timing, run_s),
        window_error=error,
        expected_error=None if half is None else math.hypot(half, NORMAL_QUANTILE * DRIFT),
    )


def _window_error(timing: Timing, calibration: Calibration) -> float:
    """Relative standard deviation of one window: the board's noise, and how well its ends are timed."""
    noise = calibration.power_noise * math.sqrt(calibration.noise_span_s / timing.window_s)
    ends = timing.fine_s / math.sqrt(6) / max(timing.window_s - timing.tick_s, timing.tick_s)
    return math.hypot(max(noise, LEAST_NOISE), ends)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
