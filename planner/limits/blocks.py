"""Long pipelines of operations shorter than a clock change takes: neighbours share a clock in blocks.

Consecutive operations of a stage make a block as soon as the fastest of their options last as long as a clock has
to be kept. A block has one clock, so that no plan of blocks changes the clock too soon, and plans are searched as
those without limits are, with blocks where there were operations.

Legend: n operations as in `Schedule.ops`, C clocks, P plans (columns).
"""

from dataclasses import replace

import numpy as np

from energyopt.planner.arrays import Choices, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.problem import Front, Problem


def block_numbers(table: ClockTable, min_dwell_s: float) -> Ints:
    """The number of each operation's block, rising, [n]; what is left at a stage's end joins the block before."""
    fastest_s = table.time_nC.min(axis=1).tolist()
    found: list[int] = []
    number = -1
    for begin, end in zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True):
        first_number, lasted_s = number + 1, np.inf
        for op in range(begin, end):
            if lasted_s >= min_dwell_s:
                number, lasted_s = number + 1, 0.0
            lasted_s += fastest_s[op]
            found.append(number)
        if lasted_s < min_dwell_s and number > first_number:
            found = [min(one, number - 1) for one in found]
            number -= 1
    return np.array(found, dtype=np.int64)


class BlockProblem:
    """The problem in which every block has one choice: one of the clocks that all its operations can run at.

    block_of: [n]; clock_of: by front, the clock (an index) that each option stands for.
    """

    def __init__(self, table: ClockTable, block_of: Ints) -> None:
        problem = table.problem
        self.table, self.block_of = table, block_of
        kinds: dict[tuple[int, ...], int] = {}
        fronts: list[Front] = []
        self.clock_of: list[Ints] = []
        front_of = np.empty(problem.n_ops, dtype=np.int32)
        begins = np.flatnonzero(np.diff(block_of, prepend=-1)).tolist()
        for begin, end in zip(begins, [*begins[1:], problem.n_ops], strict=True):
            kind = tuple(problem.front_of[begin:end].tolist())
            if kind not in kinds:
                kinds[kind] = len(fronts)
                clocks = _worthwhile(table, kind)
                fronts += [_front(table, front, clocks) for front in kind]
                self.clock_of += [clocks] * len(kind)
            front_of[begin:end] = kinds[kind] + np.arange(len(kind))
        self.problem: Problem = replace(problem, fronts=tuple(fronts), front_of=front_of)

    @property
    def is_possible(self) -> bool:
        """Whether every block has a clock that all its operations were measured at."""
        return all(len(clocks) for clocks in self.clock_of)

    def clocks(self, choices: Ints) -> Choices:
        """Choices of the blocks' options, [n, P], as clocks."""
        plans = np.empty(choices.shape, dtype=np.int16)
        for index, clocks in enumerate(self.clock_of):
            ops = self.problem.front_of == index
            plans[ops] = clocks[choices[ops]]
        return plans


def _worthwhile(table: ClockTable, kind: tuple[int, ...]) -> Ints:
    """The clocks that no other beats in time and energy of the whole block, fastest first."""
    fronts = list(kind)
    time_s, effective_j = table.time_FC[fronts].sum(axis=0), table.effective_FC[fronts].sum(axis=0)
    ranked = np.lexsort((effective_j, time_s))
    ranked = ranked[np.isfinite(time_s[ranked])]
    least_j = np.minimum.accumulate(effective_j[ranked])
    is_better = np.append(True, effective_j[ranked][1:] < least_j[:-1])
    return np.asarray(ranked[is_better[: len(ranked)]], dtype=np.int64)


def _front(table: ClockTable, front: int, clocks: Ints) -> Front:
    time_s, effective_j = table.time_FC[front, clocks], table.effective_FC[front, clocks]
    hull = lower_hull(time_s.tolist(), effective_j.tolist())
    return Front(options=(), time_s=time_s, effective_j=effective_j, hull=hull)
