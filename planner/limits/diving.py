"""From a segmentation to a plan: each run of operations gets one clock, a few at a time, by the relaxed problem.

The runs' shared weights over clocks are solved for; runs that are as good as decided keep their clock, more are
decided each time, and the next solution makes up for what that cost elsewhere. What no longer meets the deadline is
decided for the faster side, which always does.

Legend: n operations as in `Schedule.ops`, G runs, C clocks.
"""

import math
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.formulations.shared import build_shared
from energyopt.planner.formulations.shared_highs import SharedClockSolver, SharedRelaxed
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.groups import offered_clocks

_NEAR = 2  # clocks on either side of a run's mean time that it is decided between
_DECIDED = 0.999  # weight of one clock with which a group is as good as decided
_SURE = 0.9  # weight from which a group takes its heaviest clock; else the faster of those it is between
_UNUSED = 1e-9  # weight below which a clock is not used
_LEAST_PART = 2  # operations of a part
_ROUNDING = 1e-9  # relative; what a deadline may be exceeded by in the solver
_SHARE = 0.3  # of the undecided runs that are decided in one step


def runs_of(table: ClockTable, plan: Choices) -> Ints:
    """The runs of a plan as groups, [n]: operations of a stage that follow each other at one clock."""
    breaks = (plan[1:] != plan[:-1]) | ~table.follows
    return np.concatenate(([0], np.cumsum(breaks)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segmentation:
    """Runs as groups [n], how many changes they make, and the relaxed problem's solution for them."""

    runs: Ints
    switches: int
    relaxed: SharedRelaxed


def segment(table: ClockTable, plan: Choices, deadline_s: float) -> Segmentation | None:
    """The runs of a plan [n], and weights over clocks that meet the deadline, or None."""
    runs = runs_of(table, plan)
    relaxed = Dive(table, runs).relaxed(deadline_s)
    if relaxed is None:
        return None
    return Segmentation(runs=runs, switches=int(table.switches(plan[:, None])[0]), relaxed=relaxed)


def dive(table: ClockTable, segmentation: Segmentation, deadline_s: float, most: float) -> Choices | None:
    """A plan [n] that meets the deadline with a segmentation's runs, or parts of them, and at most so many changes.

    Runs that lie between two clocks are split in parts, as far as the changes go: a part can be slower where others
    make up for it. None where no clocks were found that meet the deadline.
    """
    spare = int(min(most - segmentation.switches, len(segmentation.runs)))
    parts = _split(segmentation.runs, segmentation.relaxed.weight_GC, spare)
    return Dive(table, parts).plan(deadline_s)


class Dive:
    """The relaxed problem with one clock for each group of operations, and plans that come of it."""

    def __init__(self, table: ClockTable, group_of: Ints) -> None:
        """group_of: [n], as in `build_shared`."""
        self._group_of = group_of
        self._deadline_s = np.inf
        shape = int(group_of.max()) + 1, len(table.clocks_mhz)
        self._time_GC, effective_GC = np.zeros(shape), np.zeros(shape)
        np.add.at(self._time_GC, group_of, table.time_nC)
        np.add.at(effective_GC, group_of, table.effective_nC)
        self._thrifty = _thrifty(self._time_GC, effective_GC)
        arrays = build_shared(table, group_of, self._thrifty, limited=False)
        self._solver = SharedClockSolver(arrays, interior=False)
        fastest = self._time_GC == self._time_GC.min(axis=1, keepdims=True)
        self._on_hulls = self._thrifty & (offered_clocks(table, group_of) | fastest)
        self._offered = self._on_hulls

    def relaxed(self, deadline_s: float) -> SharedRelaxed | None:
        """Weights over the clocks on hulls that meet a deadline, or None."""
        self._deadline_s = deadline_s * (1 + _ROUNDING)
        return self._offer(self._on_hulls)

    def plan(self, deadline_s: float) -> Choices | None:
        """A plan [n] that meets a deadline, or None; only clocks near the relaxed durations are chosen from."""
        if (solution := self.relaxed(deadline_s)) is None:
            return None
        solution = self._offer(self._bracketing(solution.weight_GC))
        while solution is not None and (self._offered.sum(axis=1) > 1).any():
            solution = self._step(solution.weight_GC)
        return None if solution is None else self._offered.argmax(axis=1)[self._group_of].astype(np.int16)

    def _offer(self, offered: Flags) -> SharedRelaxed | None:
        """Solve with these clocks; what has a solution is kept."""
        self._solver.offer(offered)
        solution = self._solver.solve(self._deadline_s)
        if solution is not None:
            self._offered = offered
        return solution

    def _bracketing(self, weight_GC: Floats) -> Flags:  # noqa: N803
        """The thrifty clocks next to each group's mean time, on either side, [G, C]."""
        time_GC = np.where(self._thrifty, self._time_GC, np.inf)
        mean_s = (weight_GC * np.where(self._thrifty, self._time_GC, 0.0)).sum(axis=1)
        faster = time_GC <= mean_s[:, None] * (1 + _ROUNDING)
        faster[np.arange(len(faster)), time_GC.argmin(axis=1)] = True
        slowest_first = np.sort(np.where(faster, -time_GC, np.inf), axis=1)
        fastest_first = np.sort(np.where(faster, np.inf, time_GC), axis=1)
        least_s, most_s = -slowest_first[:, _NEAR - 1], fastest_first[:, _NEAR - 1]
        return self._thrifty & (time_GC >= least_s[:, None]) & (time_GC <= most_s[:, None])

    def _step(self, weight_GC: Floats) -> SharedRelaxed | None:  # noqa: N803
        """Decide some groups for their heaviest clock; where that is too slow, for a faster one."""
        weight_GC = np.where(self._offered, weight_GC, -1.0)
        decided = self._most_decided(weight_GC)
        used, slower = weight_GC > _UNUSED, -self._time_GC
        sure = weight_GC.max(axis=1, keepdims=True) >= _SURE
        careful = np.where(used, slower, -np.inf)
        for choice in (np.where(sure, weight_GC, careful), careful, np.where(self._offered, slower, -np.inf)):
            offered = self._offered.copy()
            offered[decided] = False
            offered[decided, choice[decided].argmax(axis=1)] = True
            if (solution := self._offer(offered)) is not None:
                return solution
        return None

    def _most_decided(self, weight_GC: Floats) -> Ints:  # noqa: N803
        """The groups to decide next: all that are as good as decided, and a share of the others."""
        largest = weight_GC.max(axis=1)
        undecided = np.flatnonzero(self._offered.sum(axis=1) > 1)
        ranked = undecided[np.argsort(-largest[undecided], kind="stable")]
        between = int((largest[ranked] < _DECIDED).sum())
        return ranked[: len(ranked) - between + math.ceil(_SHARE * between)]


def _split(group_of: Ints, weight_GC: Floats, spare: int) -> Ints:  # noqa: N803
    """Split the groups that lie most between clocks, those of many operations in more parts; new groups, [n]."""
    size = np.bincount(group_of)
    between = size * (1 - weight_GC.max(axis=1))
    between[weight_GC.max(axis=1) >= _DECIDED] = 0.0
    parts = np.ones(len(size), dtype=np.int64)
    for _ in range(spare):
        worth = np.where(size >= _LEAST_PART * (parts + 1), between / parts, 0.0)
        if not worth.any():
            break
        parts[worth.argmax()] += 1
    position = np.arange(len(group_of)) - np.searchsorted(group_of, group_of)
    part = position * parts[group_of] // size[group_of]
    return np.concatenate(([0], np.cumsum((np.diff(group_of) > 0) | (np.diff(part) != 0))))


def _thrifty(time_GC: Floats, effective_GC: Floats) -> Flags:  # noqa: N803
    """The clocks that no other beats in both time and effective energy of a group, [G, C]."""
    thrifty = np.zeros(time_GC.shape, dtype=np.bool_)
    order = np.lexsort((effective_GC, time_GC), axis=1)
    ranked_j = np.take_along_axis(effective_GC, order, axis=1)
    before_j = np.minimum.accumulate(ranked_j, axis=1)
    better = np.concatenate((np.isfinite(ranked_j[:, :1]), ranked_j[:, 1:] < before_j[:, :-1]), axis=1)
    np.put_along_axis(thrifty, order, better, axis=1)
    return thrifty
