"""How long plans keep a clock, for many plans at once; the spans are those of `rules.SwitchLimits`.

Legend: n operations as in `Schedule.ops`, W plans (columns).
"""

import numpy as np

from energyopt.planner.arrays import Choices, Floats
from energyopt.planner.limits.clocks import ClockTable


def shortest_dwell_s(table: ClockTable, plans: Choices, start_s: Floats, iteration_time_s: Floats) -> Floats:
    """The shortest span of any clock on any stage, [W]; infinite where no stage changes its clock.

    start_s [n, W]: when operations start; iteration_time_s [W]: after what time they start again.
    """
    shortest_s = np.full(plans.shape[1], np.inf)
    for begin, end in zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True):
        of_stage = _stage_s(plans[begin:end], start_s[begin:end], iteration_time_s)
        np.minimum(shortest_s, of_stage, out=shortest_s)
    return shortest_s


def _stage_s(clocks: Choices, start_s: Floats, iteration_time_s: Floats) -> Floats:
    """The shortest span of one stage, [W]: between changes, and around the turn of the iteration."""
    width = clocks.shape[1]
    first_s, last_s = np.full(width, np.nan), np.full(width, np.nan)  # the first and the latest change
    shortest_s = np.full(width, np.inf)
    for position in np.flatnonzero((clocks[1:] != clocks[:-1]).any(axis=1)).tolist():
        changed = clocks[position + 1] != clocks[position]
        now_s = start_s[position + 1]
        span_s = np.where(changed & ~np.isnan(last_s), now_s - last_s, np.inf)
        np.minimum(shortest_s, span_s, out=shortest_s)
        first_s = np.where(changed & np.isnan(first_s), now_s, first_s)
        last_s = np.where(changed, now_s, last_s)
    joined = clocks[0] == clocks[-1]
    around_s = iteration_time_s - last_s + np.where(joined, first_s, start_s[0])
    ahead_s = np.where(joined, np.inf, first_s - start_s[0])
    turn_s = np.minimum(around_s, ahead_s)
    return np.where(np.isnan(first_s), np.inf, np.minimum(shortest_s, turn_s))
