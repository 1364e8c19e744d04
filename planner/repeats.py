"""What repeats in a schedule: operations and dependencies that the steady state has once per period.

A long pipeline does the same again and again. In the middle of an iteration the operations of one series (stage,
chunk, kind) differ by nothing but their microbatch, P microbatches further on (P = 1 for 1F1B, the number of stages
for interleaved schedules). They make one class; operations near either end of the iteration are classes of their
own. So are dependencies: those that touch the middle are one class for each pair of series and distance.

Series run ahead of each other: 1F1B's first stage is S - 1 microbatches ahead with its forwards. Microbatches are
therefore counted from where each series stands when its stage is in the middle of the iteration, which keeps the
distances of dependencies at 0 or 1.

Legend: n operations as in `Schedule.ops`, m dependencies, C classes of operations, E classes of dependencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Flags, Ints
from energyopt.planner.graph import Graph
from energyopt.schemas.ops import Op, OpKind, Schedule

_BACKWARDS = (OpKind.BACKWARD, OpKind.BACKWARD_INPUT, OpKind.FORWARD_BACKWARD)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeats:
    """The classes of operations [n] and of dependencies [m], and how many each has, [C] and [E]."""

    op_class: Ints
    edge_class: Ints
    ops: Ints
    edges: Ints

    @property
    def representative(self) -> Ints:
        """One operation of each class, [C]."""
        found = np.zeros(len(self.ops), dtype=np.int64)
        found[self.op_class] = np.arange(len(self.op_class))
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Counted:
    """Operations by series [n], and by the microbatch that is counted from the series' own middle, [n]."""

    series: Ints
    microbatch: Ints


def find_repeats(schedule: Schedule, graph: Graph, ends: int) -> Repeats:
    """Classes with `ends` microbatches that stand for themselves at either end."""
    period = period_of(schedule)
    counted = _counted(schedule, graph, period)
    block, phase = np.divmod(counted.microbatch, period)
    first, last = -(-ends // period), (schedule.microbatches - ends) // period
    middle = (block >= first) & (block < last)
    kind = counted.series * period + phase
    pair = _pairs(graph, kind, block)
    while True:
        op_class, ops = _numbered(np.where(middle, -1 - kind, np.arange(len(kind))))
        touches = middle[graph.tail] | middle[graph.head]
        edge_class, edges = _numbered(np.where(touches, -1 - pair, np.arange(len(pair))))
        odd = middle & _odd(graph, op_class, edge_class)
        if not odd.any():
            return Repeats(op_class=op_class, edge_class=edge_class, ops=ops, edges=edges)
        middle &= ~odd


def _pairs(graph: Graph, kind: Ints, block: Ints) -> Ints:
    """What dependencies share that may be one class: the kinds at their ends and how far apart these are, [m]."""
    distance = block[graph.head] - block[graph.tail]
    reach = int(np.abs(distance).max(initial=0))
    pair = kind[graph.tail] * (int(kind.max(initial=0)) + 1) + kind[graph.head]
    return np.asarray(pair * (2 * reach + 1) + distance + reach)


def _odd(graph: Graph, op_class: Ints, edge_class: Ints) -> Flags:
    """Operations that have other dependencies than most of their class, [n]: prices are only conserved in others.

    What an operation depends on, and what on it, is told apart by sums of random numbers, one for each class.
    """
    code = np.random.default_rng(0).integers(
        0, 2**63, (int(edge_class.max(initial=0)) + 1, 2), dtype=np.uint64
    )
    looks = np.zeros(len(op_class), dtype=np.uint64)
    np.add.at(looks, graph.tail, code[edge_class, 0])
    np.add.at(looks, graph.head, code[edge_class, 1])
    order = np.lexsort((looks, op_class))
    changes = (np.diff(op_class[order]) != 0) | (np.diff(looks[order]) != 0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.concatenate(([0], np.cumsum(changes)))
    size = np.bincount(group)
    of_class = np.zeros(len(size), dtype=np.int64)
    of_class[group] = op_class
    ranked = np.lexsort((-size, of_class))  # of equally large groups the first
    _, first = np.unique(of_class[ranked], return_index=True)
    return np.asarray(group != ranked[first][op_class])


def _numbered(names: Ints) -> tuple[Ints, Ints]:
    """Numbers from 0 on, and how often each occurs."""
    _, numbers, counts = np.unique(names, return_inverse=True, return_counts=True)
    return numbers.astype(np.int64), counts.astype(np.int64)


def _counted(schedule: Schedule, graph: Graph, period: int) -> _Counted:
    """Of two ways to count the one whose dependencies reach least far: as the series stand, or not at all."""
    keys = sorted({op.key for op in schedule.ops})
    place = {key: index for index, key in enumerate(keys)}
    series = np.array([place[op.key] for op in schedule.ops], dtype=np.int64)
    microbatch = np.array([op.microbatch for op in schedule.ops], dtype=np.int64)
    ahead_of = _ahead(schedule, period)
    ahead = np.array([ahead_of.get(key, 0) for key in keys])
    ways = [microbatch - ahead[series], microbatch]
    reach = [int(np.abs(way[graph.head] - way[graph.tail]).max(initial=0)) for way in ways]
    return _Counted(series=series, microbatch=ways[int(np.argmin(reach))])


def _ahead(schedule: Schedule, period: int) -> dict[object, int]:
    """How many microbatches each series is ahead when its stage runs the middle backward of its first chunk."""
    middle = schedule.microbatches // 2 // period * period
    found: dict[object, int] = {}
    for order in schedule.orders:
        done: dict[object, int] = {}
        for op in order[: backward_of(order, middle)]:
            done[op.key] = done.get(op.key, 0) + 1
        found |= {key: count - middle for key, count in done.items()}
    return found


def period_of(schedule: Schedule) -> int:
    """The microbatches after which every stage's order repeats itself in the middle, 1 where none is found."""
    for period in (1, schedule.stages):
        if all(goes_on(_middle(order), period, period * series_of(order)) for order in schedule.orders):
            return period
    return 1


def backward_of(order: Sequence[Op], microbatch: int) -> int:
    """Where a stage runs the backward of a microbatch on its first chunk; its end if it does not."""
    wanted = (
        place
        for place, op in enumerate(order)
        if op.microbatch == microbatch and op.chunk == 0 and op.kind in _BACKWARDS
    )
    return next(wanted, len(order))


def _middle(order: tuple[Op, ...]) -> tuple[Op, ...]:
    return order[len(order) // 3 : 2 * len(order) // 3]


def series_of(order: Sequence[Op]) -> int:
    """What a stage does once for every microbatch."""
    return len({op.key for op in order})


def goes_on(order: Sequence[Op], period: int, length: int) -> bool:
    """Whether operations do the same again `length` operations and `period` microbatches further on."""
    return len(order) > length and all(
        (one.key, one.microbatch + period) == (other.key, other.microbatch)
        for one, other in zip(order[:-length], order[length:], strict=True)
    )
