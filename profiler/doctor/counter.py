"""Watching an energy counter: does it move, how fine is it, and does it agree with the power readings."""

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean, median

from energyopt.applier.devices.interface import Absent, Device
from energyopt.profiler.doctor.records import CounterHealth

WATCH_S = 1.0
_LOOK_EVERY_S = 0.002

Sample = tuple[float, float, float | Absent]
"""Time (s), counter (J), power (W)."""


def watch_counter(
    device: Device, now_s: Callable[[], float], sleep: Callable[[float], None], duration_s: float = WATCH_S
) -> CounterHealth | Absent:
    """Look at the counter and at the power for `duration_s` of the clock `now_s`.

    The board is left as it is, idle or busy; nothing is run on it.
    """
    samples: list[Sample] = []
    start_s = now_s()
    while now_s() - start_s < duration_s:
        energy_j = device.energy_j()
        if isinstance(energy_j, Absent):
            return energy_j
        samples.append((now_s(), energy_j, device.power_w()))
        sleep(_LOOK_EVERY_S)
    return judge(samples, now_s() - start_s)


def judge(samples: list[Sample], watched_s: float) -> CounterHealth:
    """What the samples say; the mean powers are those between the first and the last tick that was seen."""
    ticks = [after for before, after in pairwise(samples) if after[1] != before[1]]
    if len(ticks) < 2:
        return CounterHealth(watched_s=watched_s, ticks=len(ticks))
    (first_s, first_j, _), (last_s, last_j, _) = ticks[0], ticks[-1]
    powers = [power for at, _, power in samples if first_s <= at <= last_s and not isinstance(power, Absent)]
    return CounterHealth(
        watched_s=watched_s,
        ticks=len(ticks),
        tick_s=median(after[0] - before[0] for before, after in pairwise(ticks)),
        counter_w=(last_j - first_j) / (last_s - first_s),
        power_w=fmean(powers) if powers else None,
    )
