"""Bringing a board to the state that it has in the middle of a sweep, and timing single runs on the way."""

import math
from collections.abc import Callable, Sequence

from energyopt.applier.devices.interface import Absent
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.workloads.interface import Kernel

TRIAL_S = 0.05
SHARE_S = 0.5
STABLE_C = 1.0
LEAST_STEP_S = 5.0
UNSEEN_S = 30.0
"""How long a board is warmed whose temperature cannot be read."""


def run_time_s(bench: Bench, kernel: Kernel, agree: Callable[[int], int] = int) -> float:
    """About how long one run of a prepared kernel takes, s; its first run alone is not believed.

    `agree` makes ranks that run a collective together run it equally often.
    """
    first_s = bench.run(kernel, agree(1))
    repeats = agree(max(1, math.ceil(TRIAL_S / first_s)))
    return bench.run(kernel, repeats) / repeats


def soak(bench: Bench, kernels: Sequence[Kernel], longest_s: float) -> None:
    """Run the kernels in turn, as the sweep will, until the temperature no longer rises or the time is over.

    A cold board's first windows are too cheap; one that was heated by its heaviest kernel alone is too hot.
    """
    alone = [kernel for kernel in kernels if kernel.communication is None]
    if isinstance(bench.device.state().temperature_c, Absent):
        longest_s = min(longest_s, UNSEEN_S)
    before = bench.device.state().temperature_c
    ends_s = bench.now_s() + longest_s
    while alone and bench.now_s() < ends_s:
        _step(bench, alone, ends_s)
        after = bench.device.state().temperature_c
        if not isinstance(after, Absent) and not isinstance(before, Absent) and after - before < STABLE_C:
            return
        before = after


def longest_soak_s(settings: Settings) -> float:
    """The longest warming up, which may take a tenth of a budget, s."""
    return settings.soak_s if settings.budget_s is None else min(settings.soak_s, settings.budget_s / 10)


def _step(bench: Bench, kernels: Sequence[Kernel], ends_s: float) -> None:
    """Every kernel once, for equal times, long enough altogether for the temperature to move."""
    each_s = max(SHARE_S, LEAST_STEP_S / len(kernels))
    for kernel in kernels:
        if bench.now_s() >= ends_s:
            return
        bench.prepare(kernel)
        run_s = run_time_s(bench, kernel)
        bench.run(kernel, max(1, math.ceil(min(each_s, ends_s - bench.now_s()) / run_s)))
