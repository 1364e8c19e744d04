"""Which layout to take: the plans that nothing beats, and layouts by the energy that they need in a given time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from energyopt.planner.selection import ROUNDING
from energyopt.schemas.errors import RequestError
from energyopt.schemas.sweep import PlannedLayout, Sweep, SweepPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A layout among the others; layout: its index in `Sweep.layouts`.

    in_time: its cheapest plan within the deadline, None where all are slower.
    front: 1 where one of its plans is beaten by no plan of any layout in both time and energy; 2 where that is so
        once all layouts of front 1 are taken away (that do not fit into memory, say); and so on.
    """

    layout: int
    in_time: SweepPoint | None
    front: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbouring unbeaten plans of one layout, fastest first."""

    layout: int
    points: tuple[SweepPoint, ...]


def check_slowdown(slowdown: float) -> None:
    """Refuse a factor that no deadline follows from.

    Raises:
        RequestError: it is not a finite number above 0.
    """
    if not (slowdown > 0 and math.isfinite(slowdown)):
        raise RequestError(f"--max-slowdown needs a finite factor above 0, not {slowdown:g}")


def deadline_s(sweep: Sweep) -> float:
    """The time that layouts are ranked in: relative to the fastest layout at the highest clock."""
    return sweep.max_slowdown * min(one.max_clock_time_s for one in sweep.layouts)


def ranked(sweep: Sweep) -> list[Standing]:
    """Layouts by their energy within the deadline; those that are all slower follow, the fastest first."""
    deadline = deadline_s(sweep)
    fronts = _fronts(sweep)
    found = [
        Standing(layout=index, in_time=_cheapest(one, deadline), front=fronts[index])
        for index, one in enumerate(sweep.layouts)
    ]
    return sorted(found, key=lambda standing: _order(sweep, standing))


def stretches(sweep: Sweep) -> list[Stretch]:
    """The plans that no plan of any layout beats in both time and energy, fastest first, by layout."""
    return _stretches(sweep, range(len(sweep.layouts)))


def contenders(sweep: Sweep, least: int) -> list[int]:
    """All layouts of front 1, and of the next fronts as many as make `least` in all, the best first."""
    by_front = sorted(ranked(sweep), key=lambda one: one.front)
    first = sum(one.front == 1 for one in by_front)
    return [one.layout for one in by_front[: max(first, least)]]


def _stretches(sweep: Sweep, layouts: Iterable[int]) -> list[Stretch]:
    found: list[Stretch] = []
    plans = [(point, index) for index in layouts for point in sweep.layouts[index].points]
    best_j = float("inf")
    for point, index in sorted(plans, key=lambda plan: (plan[0].iteration_time_s, plan[0].energy_j, plan[1])):
        if point.energy_j >= best_j:
            continue
        best_j = point.energy_j
        if found and found[-1].layout == index:
            found[-1] = Stretch(layout=index, points=(*found[-1].points, point))
        else:
            found.append(Stretch(layout=index, points=(point,)))
    return found


def _fronts(sweep: Sweep) -> dict[int, int]:
    """The front of every layout."""
    found: dict[int, int] = {}
    left = set(range(len(sweep.layouts)))
    front = 1
    while left:
        best = {stretch.layout for stretch in _stretches(sweep, sorted(left))}
        found |= dict.fromkeys(best, front)
        left -= best
        front += 1
    return found


def _cheapest(one: PlannedLayout, deadline: float) -> SweepPoint | None:
    fitting = [point for point in one.points if point.iteration_time_s <= deadline * (1 + ROUNDING)]
    return min(fitting, key=lambda point: (point.energy_j, point.iteration_time_s), default=None)


def _order(sweep: Sweep, standing: Standing) -> tuple[bool, float, float, int]:
    point, fastest = standing.in_time, sweep.layouts[standing.layout].points[0]
    first = fastest.iteration_time_s if point is None else point.energy_j
    second = fastest.energy_j if point is None else point.iteration_time_s
    return point is None, first, second, standing.layout
