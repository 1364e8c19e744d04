"""Finds clocks and configurations of an operation's partitions that no known option beats.

First all vertices of the lower hull, so that bounds over options stay valid for every choice there is; then choices
within deadlines between them, where the best that is known may still be far from what prices allow.
"""

from contextlib import suppress
from itertools import pairwise

import numpy as np

from energyopt.planner.arrays import Flags, Floats
from energyopt.planner.composition.minkowski import pareto_indices
from energyopt.planner.formulations.cvxpy_mixed import (
    MixedChoice,
    MixedProblem,
    MixedProgram,
    UnprovenError,
)
from energyopt.planner.hulls import lower_hull

DEADLINES = 12
"""That choices are looked for within, besides the hull's vertices."""

_NEXT = 1e-8  # relative: the next deadline is shorter than what was found by this at least
_SAME = 1e-8  # relative: what a priced sum must be lower by to be another one
_WORTH = 1e-4  # relative: what a choice within a deadline must be able to save to be looked for
_NODES = 10_000  # of a search tree that has to come to its end; most have one
_FEW_NODES = 100  # of one that need not: for what is found beside the hull

Point = tuple[float, float]
"""Time in s and effective energy in J."""


def find_choices(
    problem: MixedProblem, known: tuple[Floats, Floats], deadlines: int | None = DEADLINES
) -> list[MixedChoice]:
    """Choices of more than one clock; some of them may still be beaten by known points or each other.

    known: times and effective energies of what the operation can do at one clock.
    deadlines: how many to look within besides the hull; None for as many as it takes to find the whole front.

    Raises:
        UnprovenError: a vertex of the hull was not proven, or, without a number of deadlines, a choice.
    """
    search = _Search(problem, known)
    search.hull()
    if deadlines is None:
        search.every()
    else:
        search.between(deadlines)
    return search.found


class _Search:
    """Finds choices that known points do not beat, and remembers what the prices that it tried prove."""

    def __init__(self, problem: MixedProblem, known: tuple[Floats, Floats]) -> None:
        self._problem = problem
        self._program = MixedProgram(problem, _NODES)
        front = pareto_indices(*known)
        self._known_s, self._known_j = known[0][front], known[1][front]
        self.points = {*_hull(self._known_s, self._known_j)}
        self.found: list[MixedChoice] = []
        self._lines: list[Point] = []  # price in W, and the least priced sum of any choice in J

    def hull(self) -> None:
        """All choices that are vertices of the lower hull of known points and choices.

        Each edge is tried: the best choice at the price that makes its ends cost the same lies below it, or the
        edge is one of the hull.
        """
        fastest, cheapest = self._program.at_price(0.0, 1.0), self._program.at_price(1.0, 0.0)
        self._add(fastest)
        self._add(cheapest)
        self._lines.append((0.0, cheapest.effective_j))
        tried: set[tuple[Point, Point]] = set()
        while left := [edge for edge in pairwise(_vertices(self.points)) if edge not in tried]:
            tried.update(left)
            for edge in left:
                self._try(*edge)

    def between(self, deadlines: int) -> None:
        """Choices of least effective energy within so many deadlines up to the slowest known point.

        Deadlines are left out within which nothing can save what is worth it, or nothing is proven to be the best.
        """
        first_s, last_s = min(self.points)[0], float(self._known_s[-1])
        for deadline_s in np.linspace(last_s, first_s, deadlines, endpoint=False).tolist():
            allowed = self._worth_trying(deadline_s)
            if not allowed.any():
                continue
            with suppress(UnprovenError):
                one = self._program.within(deadline_s, allowed, _FEW_NODES)
                if one is not None:
                    self._add(one)

    def every(self) -> None:
        """All choices on the front up to the slowest known point: each is what is possible just before the next."""
        deadline_s = float(self._known_s[-1])
        while (one := self._program.within(deadline_s)) is not None:
            self._add(one)
            deadline_s = one.time_s * (1 - _NEXT)

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

    def _worth_trying(self, deadline_s: float) -> Flags:
        """The items that can be part of a choice within a deadline that saves enough, [I].

        At a price, a choice with an item costs at least what the cheapest choice does, and what the item costs more
        than the cheapest of its partition at its clock.
        """
        problem = self._problem
        price_w, priced_j = max(self._lines, key=lambda line: line[1] - line[0] * deadline_s)
        cost_j = problem.effective_j + price_w * problem.time_s
        cells = problem.partition * problem.shape[1] + problem.clock
        cheapest_j = np.full(problem.shape[0] * problem.shape[1], np.inf)
        np.minimum.at(cheapest_j, cells, cost_j)
        known_j = self._known_within_j(deadline_s)
        target_j = known_j - _WORTH * abs(known_j)
        return np.asarray(priced_j - price_w * deadline_s + cost_j - cheapest_j[cells] < target_j)

    def _known_within_j(self, deadline_s: float) -> float:
        """The least effective energy that is known to be possible by a deadline."""
        known: list[float] = [effective_j for time_s, effective_j in self.points if time_s <= deadline_s]
        place = int(np.searchsorted(self._known_s, deadline_s, side="right")) - 1
        known += self._known_j[max(place, 0) : place + 1].tolist()
        return min(known)


def _vertices(points: set[Point]) -> list[Point]:
    time_s, effective_j = np.array(sorted(points)).T
    front = pareto_indices(time_s, effective_j)
    return _hull(time_s[front], effective_j[front])


def _hull(time_s: Floats, effective_j: Floats) -> list[Point]:
    kept = lower_hull(time_s.tolist(), effective_j.tolist())
    return list(zip(time_s[kept].tolist(), effective_j[kept].tolist(), strict=True))
