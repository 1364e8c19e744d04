"""Options whose partitions run at different clocks, where a change of the clock costs time and energy.

Composed options have one clock, for which their fronts are exact sums. Here every partition has its own: an exact
program (`formulations.cvxpy_mixed`) chooses clocks and configurations together, first for the vertices of the lower
hull, all of them, so that bounds stay valid, and then within deadlines between them. An operation starts and ends
at one clock, its own: that of the partition that runs first. What changes inside it is paid for in its time, so that
changes between operations, and limits on these, mean what they always mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from energyopt.planner.composition.changes import Ring
from energyopt.planner.composition.minkowski import pareto_indices
from energyopt.planner.composition.rows import Way
from energyopt.planner.formulations.cvxpy_mixed import MixedChoice, MixedProblem, MixedProgram
from energyopt.planner.hulls import lower_hull
from energyopt.schemas.errors import RequestError
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import named
from energyopt.schemas.profile import Profile

_DEADLINES = 24  # that options are looked for within, besides the hull's vertices, for each way of an operation
_NEXT = 1e-8  # relative: the next deadline is shorter than what was found by this at least
_SAME = 1e-8  # relative: what a priced sum must be lower by to be another one
_WORTH = 1e-4  # relative: what a choice within a deadline must be able to save to be looked for
_TIME_LIMIT_S = 60.0  # for one choice; most take hundredths of a second

Scales = Mapping[int, tuple[float, float]]
"""By clock, what times and energies of partitions are multiplied by."""

Point = tuple[float, float]
"""Time in s and effective energy in J."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCost:
    """What a change of the clock between two partitions costs on one GPU, which does nothing meanwhile."""

    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """An option, the clock and the place among its choices of each partition, and the clock changes inside it."""

    option: Option
    picks: tuple[tuple[int, int], ...]
    changes: int


def switch_cost(profile: Profile, time_s: float | None, energy_j: float | None) -> SwitchCost:
    """The cost of a change: the profile's clock switch latency, at wait power, where nothing else is said.

    Raises:
        RequestError: nobody knows the time, or a change would cost less than to wait.
    """
    time_s = profile.metadata.clock_switch_latency_s if time_s is None else time_s
    if time_s is None:
        raise RequestError(
            "--mixed-clocks needs to know what a clock change takes, which the profile does not say; give "
            "--switch-time-s, or profile where clocks can be set"
        )
    if not (math.isfinite(time_s) and time_s >= 0):
        raise RequestError(f"--switch-time-s needs a finite time of at least 0 s, not {time_s:g}")
    waiting_j = profile.metadata.wait_power_w * time_s
    energy_j = waiting_j if energy_j is None else energy_j
    if not (math.isfinite(energy_j) and energy_j >= waiting_j):
        raise RequestError(
            f"--switch-energy-j needs at least the {waiting_j:g} J that waiting for {time_s:g} s costs, not "
            f"{energy_j:g}"
        )
    return SwitchCost(time_s=time_s, energy_j=energy_j)


def mixed_options(
    way: Way,
    ring: Ring,
    scales: Scales,
    wait_power_w: float,
    cost: SwitchCost,
    known: Sequence[Point],
    deadlines: int | None = _DEADLINES,
) -> list[Mixed]:
    """Options that beat known ones with more than one clock.

    known: what the operation can do at one clock. deadlines: how many to look within besides the hull; None for as
        many as it takes to find the whole front.

    Raises:
        SolverError: a choice was not proven to be the best in time.
    """
    items = _items(way, scales, wait_power_w)
    if len({one.clock_mhz for one in items}) < 2 or len(ring.order) < 2:
        return []
    search = _Search(_problem(items, ring, cost, wait_power_w), known)
    search.hull()
    search.between(deadlines)
    found = {one.items: one for one in search.found}
    return [_option(one, items, way, ring, cost) for one in found.values()]


class _Item(NamedTuple):
    """One configuration of one partition at one clock, scaled."""

    partition: int
    clock_mhz: int
    place: int
    time_s: float
    energy_j: float


def _items(way: Way, scales: Scales, wait_power_w: float) -> list[_Item]:
    """What each partition can run at: of each clock the configurations that no other beats."""
    found = []
    for clock, choices in sorted(way.clocks.items()):
        of_time, of_energy = scales[clock]
        for partition, one in enumerate(choices):
            time_s, energy_j = one.time_s * of_time, one.energy_j * of_energy
            front = pareto_indices(time_s, energy_j - wait_power_w * time_s)
            costs = zip(front.tolist(), time_s[front].tolist(), energy_j[front].tolist(), strict=True)
            found += [_Item(partition, clock, *cost) for cost in costs]
    return found


def _problem(items: Sequence[_Item], ring: Ring, cost: SwitchCost, wait_power_w: float) -> MixedProblem:
    time_s = np.array([one.time_s for one in items])
    clocks = np.array([one.clock_mhz for one in items])
    return MixedProblem(
        partition=np.array([one.partition for one in items]),
        clock=np.searchsorted(np.unique(clocks), clocks),
        time_s=time_s,
        effective_j=np.array([one.energy_j for one in items]) - wait_power_w * time_s,
        steps=ring.steps,
        change_s=cost.time_s,
        change_j=max(0.0, cost.energy_j - wait_power_w * cost.time_s),
    )


class _Search:
    """Finds choices that known points do not beat, and remembers what the prices that it tried prove."""

    def __init__(self, problem: MixedProblem, known: Sequence[Point]) -> None:
        self._problem = problem
        self._program = MixedProgram(problem, _TIME_LIMIT_S)
        self._last_s = max(time_s for time_s, _ in known)
        self.points = set(known)
        self.found: list[MixedChoice] = []
        self._lines: list[Point] = []  # price in W, and the least priced sum of any choice in J

    def hull(self) -> None:
        """All choices that are vertices of the lower hull of known points and choices.

        Each edge is tried: the best choice at the price that makes its ends cost the same lies below it, or the
        edge is one of the hull.
        """
        fastest_s = self._program.at_price(0.0, 1.0).time_s
        for one in (self._program.within(fastest_s), self._program.at_price(1.0, 0.0)):
            if one is not None:
                self._add(one)
        tried: set[tuple[Point, Point]] = set()
        while left := [edge for edge in pairwise(_vertices(self.points)) if edge not in tried]:
            tried.update(left)
            for edge in left:
                self._try(*edge)

    def between(self, deadlines: int | None) -> None:
        """Choices of least effective energy within deadlines from the slowest known point on, a step apart.

        Deadlines are left out within which nothing can save what is worth it.
        """
        first_s = min(self.points)[0]
        step_s = 0.0 if deadlines is None else (self._last_s - first_s) / deadlines
        deadline_s = self._last_s
        while deadline_s >= first_s:
            if step_s and not self._is_worth_it(deadline_s):
                deadline_s -= step_s
                continue
            one = self._program.within(deadline_s)
            if one is None:
                return
            self._add(one)
            deadline_s = one.time_s - max(step_s, _NEXT * one.time_s)

    def _try(self, early: Point, late: Point) -> None:
        price_w = (early[1] - late[1]) / (late[0] - early[0])
        edge_j = early[1] + price_w * early[0]
        least_j = self._least_j(price_w)
        if least_j < edge_j:
            one = self._program.at_price(1.0, price_w)
            least_j = one.effective_j + price_w * one.time_s
            if least_j < edge_j - _SAME * abs(edge_j):
                self._add(one)
        self._lines.append((price_w, least_j))

    def _least_j(self, price_w: float) -> float:
        """A bound that costs nothing: every partition at its best, and two steps of the ring that change clocks."""
        problem = self._problem
        cheapest_j = np.full(problem.shape[0], np.inf)
        np.minimum.at(cheapest_j, problem.partition, problem.effective_j + price_w * problem.time_s)
        changes = sum(sorted(problem.steps.values())[:2])
        return float(cheapest_j.sum()) + changes * (problem.change_j + price_w * problem.change_s)

    def _add(self, one: MixedChoice) -> None:
        self.found.append(one)
        self.points.add((one.time_s, one.effective_j))

    def _is_worth_it(self, deadline_s: float) -> bool:
        least_j = max(priced_j - price_w * deadline_s for price_w, priced_j in self._lines)
        known_j = min(effective_j for time_s, effective_j in self.points if time_s <= deadline_s)
        return known_j - least_j > _WORTH * abs(known_j)


def _vertices(points: set[Point]) -> list[Point]:
    ordered = np.array(sorted(points))
    front = ordered[pareto_indices(ordered[:, 0], ordered[:, 1])]
    hull = front[lower_hull(front[:, 0].tolist(), front[:, 1].tolist())]
    return [(time_s, effective_j) for time_s, effective_j in hull.tolist()]


def _option(one: MixedChoice, items: Sequence[_Item], way: Way, ring: Ring, cost: SwitchCost) -> Mixed:
    picked = [items[index] for index in one.items]
    own_mhz = picked[ring.order[0]].clock_mhz
    configs = []
    for item in picked:
        choices = way.clocks[item.clock_mhz][item.partition]
        clock = None if item.clock_mhz == own_mhz else item.clock_mhz
        configs.append((choices.partition, replace(choices.configs[item.place], sm_clock_mhz=clock)))
    return Mixed(
        option=Option(
            sm_clock_mhz=own_mhz,
            time_s=one.time_s,
            energy_j=sum(item.energy_j for item in picked) + one.changes * cost.energy_j,
            nanobatches=way.nanobatches,
            partitions=named(configs),
        ),
        picks=tuple((item.clock_mhz, item.place) for item in picked),
        changes=one.changes,
    )
