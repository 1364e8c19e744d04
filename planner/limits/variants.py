"""Which of several options a limited plan takes at each of its clocks.

Limited plans are searched with one option at every clock: once with the one that is best at a price of time, once
with the fastest. Where that leaves an operation time, it then takes the cheapest option of its clock that fits:
between the earliest start that the ones before it allow and the latest end that the ones after it need, for the
plan's own iteration time.

Legend: n operations as in `Schedule.ops`, P plans (columns) of clock indices.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable

_ROUNDING = 1e-12  # relative: what an operation may overrun its window by for rounding


def chosen_places(table: ClockTable, plans: Choices) -> Ints:
    """The place of each operation's option among those measured of its front, [n, P]."""
    problem = table.problem
    places = table.place_FC[problem.front_of[:, None], plans]
    if table.has_variants:
        time_s = table.time_s(plans)
        latest_s = problem.paths.latest_finishes_s(time_s, problem.paths.makespans_s(time_s))
        alike = cache(table.alike)
        for column in range(plans.shape[1]):
            _settle(table, alike, plans[:, column], latest_s[:, column], places[:, column])
    return np.asarray(places)


def times_s(table: ClockTable, places: Ints) -> Floats:
    """Durations of options by their places, [n, P]."""
    found = np.empty(places.shape)
    for front, options in enumerate(table.problem.measured):
        ops = table.problem.front_of == front
        found[ops] = np.array([option.time_s for option in options])[places[ops]]
    return found


def _settle(
    table: ClockTable,
    alike: Callable[[int, int], list[int]],
    plan: Choices,
    latest_s: Floats,
    places: Ints,
) -> None:
    """Let every operation of one plan take the cheapest option that its window allows; `places` is written.

    alike: the table's, remembered.
    """
    problem = table.problem
    finish_s = np.zeros(problem.n_ops)
    for op in problem.paths.order:
        start_s = max(
            (finish_s[before] + lag_s for before, lag_s in problem.paths.predecessors[op]), default=0.0
        )
        front = int(problem.front_of[op])
        allowed_s = (latest_s[op] - start_s) * (1 + _ROUNDING)
        fitting = [
            place
            for place in alike(front, int(plan[op]))
            if problem.measured[front][place].time_s <= allowed_s
        ]
        if fitting:
            places[op] = min(fitting, key=lambda place: _effective_j(table, front, place))
        finish_s[op] = start_s + problem.measured[front][places[op]].time_s


def _effective_j(table: ClockTable, front: int, place: int) -> float:
    option = table.problem.measured[front][place]
    return option.energy_j - table.problem.wait_power_w * option.time_s
