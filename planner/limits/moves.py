"""Small changes of a plan: a run of operations, or its beginning or end, moves to another clock.

Legend: n operations as in `Schedule.ops`, C clocks, G groups, R runs, W moves.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.viterbi import priced_j

_STEPS = np.array([-5, -3, -2, -1, 1, 2, 3, 5])  # how far a run's clock moves, in measured clocks
_ENDS = np.array([1, 2, 3, 4, 8, 16, 32])  # how many operations of a run's beginning or end move


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """W moves of one plan: what they add to effective energy, and to it, priced time and priced changes, in J."""

    energy_j: Floats
    priced_j: Floats
    first: Ints  # the operations that move, as the neighbourhood counts them
    last: Ints
    clock: Ints

    def only(self, chosen: Ints | Flags) -> "Moves":
        """Some of the moves, in the order given."""
        return Moves(
            energy_j=self.energy_j[chosen],
            priced_j=self.priced_j[chosen],
            first=self.first[chosen],
            last=self.last[chosen],
            clock=self.clock[chosen],
        )


class Neighbourhood(Protocol):
    """What moves there are, and how they are made."""

    def around(self, plan: Choices) -> Moves:
        """All moves of a plan [n]."""

    def make(self, plans: Choices, column: int, moves: Moves, index: int) -> None:
        """Make a move in one column of plans [n, W]."""


class RunMoves:
    """Moves of runs: operations of a stage that follow each other at one clock.

    price_w [n] is what a second of each operation is worth, change_j what a clock change is worth.
    """

    def __init__(self, table: ClockTable, price_w: Floats, change_j: float) -> None:
        self._table = table
        self._energy = _Sums(_finite(table.effective_nC))
        self._priced = _Sums(_finite(priced_j(table, price_w)))
        self._missing = _Sums(np.isinf(table.time_nC).astype(np.float64))
        self._change_j = change_j

    def around(self, plan: Choices) -> Moves:
        """Whole runs to near clocks and to those of the runs beside them, and their ends likewise."""
        first, last = self._runs(plan)
        before, after = self._beside(plan, first, last)
        own = plan[first].astype(np.int64)
        near = own[:, None] + _STEPS
        clocks = np.concatenate((near, before[:, None], after[:, None]), axis=1)  # [R, K]
        parts = [(first, last, clocks)]
        for length in _ENDS.tolist():
            long = np.flatnonzero(last - first >= length)
            parts.append((first[long], first[long] + length - 1, clocks[long]))
            parts.append((last[long] - length + 1, last[long], clocks[long]))
        wide = clocks.shape[1]
        begin, end = (np.concatenate([np.repeat(part[side], wide) for part in parts]) for side in (0, 1))
        clock = np.concatenate([part[2].ravel() for part in parts])
        return self._valued(plan, begin, end, clock)

    def make(self, plans: Choices, column: int, moves: Moves, index: int) -> None:
        """Set the clock of the operations from first to last."""
        plans[moves.first[index] : moves.last[index] + 1, column] = moves.clock[index]

    def _runs(self, plan: Choices) -> tuple[Ints, Ints]:
        breaks = np.flatnonzero((plan[1:] != plan[:-1]) | ~self._table.follows)
        return np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(plan) - 1]))

    def _beside(self, plan: Choices, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The clocks of the runs before and after each on its stage, or its own where there is none."""
        own, follows = plan[first].astype(np.int64), self._table.follows
        joined = follows[last[:-1]]
        before, after = own.copy(), own.copy()
        before[1:] = np.where(joined, own[:-1], own[1:])
        after[:-1] = np.where(joined, own[1:], own[:-1])
        return before, after

    def _valued(self, plan: Choices, first: Ints, last: Ints, clock: Ints) -> Moves:
        inside = (clock >= 0) & (clock < len(self._table.clocks_mhz))
        inside &= clock != plan[first]
        first, last, clock = first[inside], last[inside], clock[inside]
        measured = self._missing.over(first, last, clock) == 0
        first, last, clock = first[measured], last[measured], clock[measured]
        changes = self._more_changes(plan, first, last, clock)
        priced_j = self._priced.gain(plan, first, last, clock) + self._change_j * changes
        energy_j = self._energy.gain(plan, first, last, clock)
        return Moves(energy_j=energy_j, priced_j=priced_j, first=first, last=last, clock=clock)

    def _more_changes(self, plan: Choices, first: Ints, last: Ints, clock: Ints) -> Ints:
        """Changes that moves of one run's operations add, or take away."""
        left, right = np.maximum(first - 1, 0), np.minimum(last + 1, len(plan) - 1)
        goes_on = np.append(self._table.follows, False)  # [n] whether the next operation is on the same stage
        has_left, has_right = (first > 0) & goes_on[left], goes_on[last]

        def changes(clock: Ints) -> Ints:
            before, after = has_left & (plan[left] != clock), has_right & (plan[right] != clock)
            return np.asarray(before.astype(np.int64) + after)

        return changes(clock) - changes(plan[first].astype(np.int64))


class GroupMoves:
    """Moves of groups of operations that must share a clock, to any clock; `first` is the group, `last` unused."""

    def __init__(self, table: ClockTable, group_of: Ints, price_w: Floats) -> None:
        shape = int(group_of.max()) + 1, len(table.clocks_mhz)
        self._energy_GC, self._priced_GC = np.zeros(shape), np.zeros(shape)
        np.add.at(self._energy_GC, group_of, table.effective_nC)
        np.add.at(self._priced_GC, group_of, priced_j(table, price_w))
        self._members = [np.flatnonzero(group_of == group) for group in range(shape[0])]
        self._representative = np.array([members[0] for members in self._members])

    def around(self, plan: Choices) -> Moves:
        """Every group to every other clock that it was measured at."""
        own = plan[self._representative].astype(np.int64)
        group, clock = np.nonzero(np.isfinite(self._energy_GC))
        other = clock != own[group]
        group, clock = group[other], clock[other]
        energy_j, price_j = (
            costs[group, clock] - costs[group, own[group]] for costs in (self._energy_GC, self._priced_GC)
        )
        return Moves(energy_j=energy_j, priced_j=price_j, first=group, last=group, clock=clock)

    def make(self, plans: Choices, column: int, moves: Moves, index: int) -> None:
        """Set the clock of the group's operations."""
        plans[self._members[moves.first[index]], column] = moves.clock[index]


class _Sums:
    """Sums of a quantity [n, C] over spans of operations, in constant time each."""

    def __init__(self, values: Floats) -> None:
        self._values = values
        self._sums = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))

    def over(self, first: Ints, last: Ints, clock: Ints) -> Floats:
        """Sums from first to last, both included, at given clocks."""
        return np.asarray(self._sums[last + 1, clock] - self._sums[first, clock])

    def gain(self, plan: Choices, first: Ints, last: Ints, clock: Ints) -> Floats:
        """The same less the sums at the plan's own clocks."""
        own = np.concatenate(([0.0], np.cumsum(self._values[np.arange(len(plan)), plan])))
        return np.asarray(self.over(first, last, clock) - (own[last + 1] - own[first]))


def _finite(values: Floats) -> Floats:
    return np.where(np.isinf(values), 0.0, values)
