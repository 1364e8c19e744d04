"""Where a clock has to be kept for longer than an operation lasts, neighbours share one, in blocks.

Consecutive operations of a stage make a block as soon as the fastest of their options last as long as a clock has
to be kept. A block has one clock, so that no plan of blocks changes the clock too soon, and plans are searched as
those without limits are, with blocks where there were operations.

Legend: n operations as in `Schedule.ops`, F fronts, C clocks, P plans (columns).
"""

from dataclasses import replace

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.problem import Front, Problem

_ROUNDING = 1e-9  # relative: what a block lasts longer, so that spans between start times are not too short


def block_numbers(table: ClockTable, min_dwell_s: float) -> Ints:
    """The number of each operation's block, rising, [n]; what is left at a stage's end joins the block before."""
    needed_s = min_dwell_s * (1 + _ROUNDING)
    fastest_s = table.time_nC.min(axis=1).tolist()
    found: list[int] = []
    number = -1
    for begin, end in zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True):
        first, lasted_s, begun = number + 1, np.inf, begin
        for op in range(begin, end):
            if lasted_s >= needed_s:
                number, lasted_s, begun = number + 1, 0.0, op
            lasted_s += fastest_s[op]
            found.append(number)
        if lasted_s < needed_s and number > first:
            number -= 1
            found[begun:] = [number] * (end - begun)
    return np.array(found, dtype=np.int64)


class BlockProblem:
    """The problem in which every block has one choice: one of the clocks that all its operations can run at.

    Its fronts are those of operations in blocks of one kind, and list times and energies in the order of their
    block's options; by themselves they need not rise or fall. They have no hulls, so that nothing can relax them.

    block_of: [n]. kind_of: of each block; blocks of one kind have the same fronts one after another. time_s: what
    the options of each kind take, rising.
    """

    def __init__(self, table: ClockTable, block_of: Ints) -> None:
        self.block_of = block_of
        begins = np.flatnonzero(np.diff(block_of, prepend=-1)).tolist()
        plain = table.problem.front_of.tolist()
        kinds: dict[tuple[int, ...], int] = {}
        # of the front that operations of one front have in one kind of block
        number: dict[tuple[int, int], int] = {}
        kind_of: list[int] = []
        front_of: list[int] = []
        for begin, end in zip(begins, [*begins[1:], len(plain)], strict=True):
            fronts = tuple(plain[begin:end])
            kind = kinds.setdefault(fronts, len(kinds))
            kind_of.append(kind)
            front_of += [number.setdefault((front, kind), len(number)) for front in fronts]
        self.kind_of: Ints = np.array(kind_of, dtype=np.int64)
        self._clocks = [_worthwhile(table, list(fronts)) for fronts in kinds]
        self.time_s: list[Floats] = [
            table.time_FC[list(fronts)][:, clocks].sum(axis=0)
            for fronts, clocks in zip(kinds, self._clocks, strict=True)
        ]
        self._kind_of_front = [kind for _, kind in number]
        self.problem: Problem = replace(
            table.problem,
            fronts=tuple(_front(table, front, self._clocks[kind]) for front, kind in number),
            front_of=np.array(front_of, dtype=np.int32),
        )

    @property
    def is_possible(self) -> bool:
        """Whether every block has a clock that all its operations were measured at."""
        return all(len(clocks) for clocks in self._clocks)

    def clocks(self, choices: Ints) -> Choices:
        """Choices of the blocks' options, [n, P], as clocks."""
        most = max(map(len, self._clocks))
        clocks_FK = np.array(
            [np.resize(self._clocks[kind], most) for kind in self._kind_of_front], dtype=np.int16
        )
        return np.asarray(clocks_FK[self.problem.front_of[:, None], choices])

    def slowest_s(self) -> Floats:
        """Durations where every block takes the cheapest of its options, [n]."""
        return np.array([front.time_s[-1] for front in self.problem.fronts])[self.problem.front_of]


def _worthwhile(table: ClockTable, fronts: list[int]) -> Ints:
    """The clocks that no other beats in time and energy of a whole block with these fronts, fastest first."""
    time_s, effective_j = table.time_FC[fronts].sum(axis=0), table.effective_FC[fronts].sum(axis=0)
    ranked = np.lexsort((effective_j, time_s))
    ranked = ranked[np.isfinite(time_s[ranked])]
    least_j = np.minimum.accumulate(effective_j[ranked])
    is_better = np.append(True, effective_j[ranked][1:] < least_j[:-1])
    return np.asarray(ranked[is_better[: len(ranked)]], dtype=np.int64)


def _front(table: ClockTable, front: int, clocks: Ints) -> Front:
    return Front(
        options=(),
        time_s=table.time_FC[front, clocks],
        effective_j=table.effective_FC[front, clocks],
        hull=np.zeros(0, dtype=np.int64),
    )
