"""The dependency graph of one iteration: what the longest path and every solver work on."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.completeness import Work, locate_work
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, Schedule

Neighbours = list[list[tuple[int, float]]]  # for each operation: (the other end, lag_s) of its edges


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: the neighbour lists are cached
class Graph:
    """Dependencies of one iteration: n operations as in `Schedule.ops`, m edges sorted by (head, tail).

    `tail` is the operation that must finish and `head` the one that waits for it, `lag_s` the time between
    the two (P2P transfer). `order` is a topological order, the same one for the same schedule.
    """

    tail: NDArray[np.int32]  # [m]
    head: NDArray[np.int32]  # [m]
    lag_s: NDArray[np.float64]  # [m]
    order: NDArray[np.int32]  # [n]

    @property
    def n_ops(self) -> int:
        """The number of operations."""
        return len(self.order)

    @property
    def n_edges(self) -> int:
        """The number of dependencies."""
        return len(self.tail)

    @cached_property
    def predecessors(self) -> Neighbours:
        """For each operation, (tail, lag_s) of the edges that end there; made at the first use."""
        return _neighbours(self.n_ops, self.head, self.tail, self.lag_s)

    @cached_property
    def successors(self) -> Neighbours:
        """For each operation, (head, lag_s) of the edges that start there; made at the first use."""
        return _neighbours(self.n_ops, self.tail, self.head, self.lag_s)


def build_graph(schedule: Schedule, p2p_time_s: float = 0.0) -> Graph:
    """Build the dependencies of a schedule, in time linear in its operations.

    An operation waits for the one before it on its stage and, `p2p_time_s` after it, for the one on another
    stage that makes its input. A dependency inside a stage follows from the stage's order, so it is checked
    and gets no edge of its own.

    Raises:
        ScheduleError: incomplete, numbered wrongly, or cyclic; the text names an operation that shows it.
    """
    ops = schedule.ops
    stage = np.repeat(np.arange(schedule.stages, dtype=np.int32), [len(order) for order in schedule.orders])
    tail, head = _data_dependencies(locate_work(schedule))
    across = stage[tail] != stage[head]
    _check_stage_orders(schedule.name, ops, tail[~across], head[~across])
    tail, head = _sorted_edges(stage, tail[across], head[across])
    lag_s = np.where(stage[tail] != stage[head], p2p_time_s, 0.0)
    order = _topological_order(len(ops), tail, head)
    if len(order) < len(ops):
        _refuse_cycle(schedule.name, ops, tail, head, order)
    return Graph(tail=tail, head=head, lag_s=lag_s, order=order)


def _neighbours(
    n: int, here: NDArray[np.int32], there: NDArray[np.int32], lag_s: NDArray[np.float64]
) -> Neighbours:
    found: Neighbours = [[] for _ in range(n)]
    for op, other, lag in zip(here.tolist(), there.tolist(), lag_s.tolist(), strict=True):
        found[op].append((other, lag))
    return found


def _data_dependencies(work: Work) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(tail, head) of what every operation reads; both are one operation where a call runs both halves."""
    tails = (work.forward[:-1], work.backward[1:], work.forward, work.weight_input)
    heads = (work.forward[1:], work.backward[:-1], work.backward, work.weight)
    return np.concatenate([part.ravel() for part in tails]), np.concatenate([part.ravel() for part in heads])


def _check_stage_orders(
    name: str, ops: tuple[Op, ...], tail: NDArray[np.int32], head: NDArray[np.int32]
) -> None:
    """Refuse a read of later work on the same stage; indices grow along a stage."""
    wrong = np.flatnonzero(tail > head)
    if wrong.size:
        first = wrong[np.argmin(head[wrong])]
        raise ScheduleError(
            f"schedule {name}: {ops[head[first]]} stands before {ops[tail[first]]}, which it needs"
        )


def _sorted_edges(
    stage: NDArray[np.int32], tail: NDArray[np.int32], head: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Add the edges along the stages' orders; sort by (head, tail) and keep one of each."""
    follower = np.flatnonzero(stage[1:] == stage[:-1]) + 1
    n = max(len(stage), 1)
    edges = np.unique(np.concatenate([follower * n + follower - 1, head.astype(np.int64) * n + tail]))
    return (edges % n).astype(np.int32), (edges // n).astype(np.int32)


def _topological_order(n: int, tail: NDArray[np.int32], head: NDArray[np.int32]) -> NDArray[np.int32]:
    """Kahn's algorithm, first come first served; shorter than n where there is a cycle."""
    heads = head[np.argsort(tail, kind="stable")].tolist()
    first = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=n))]).tolist()
    missing = np.bincount(head, minlength=n).tolist()
    ready = deque(op for op in range(n) if not missing[op])
    order: list[int] = []
    while ready:
        op = ready.popleft()
        order.append(op)
        for waiting in heads[first[op] : first[op + 1]]:
            missing[waiting] -= 1
            if not missing[waiting]:
                ready.append(waiting)
    return np.array(order, dtype=np.int32)


def _refuse_cycle(
    name: str,
    ops: tuple[Op, ...],
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    order: NDArray[np.int32],
) -> None:
    """Walk back along unfinished work until an operation comes again; name a wait between two stages."""
    unfinished = np.ones(len(ops), dtype=np.bool_)
    unfinished[order] = False
    kept = unfinished[tail]
    before = dict(zip(head[kept].tolist(), tail[kept].tolist(), strict=True))
    op = next(iter(before))
    walked: dict[int, None] = {}
    while op not in walked:
        walked[op] = None
        op = before[op]
    cycle = list(walked)[list(walked).index(op) :]
    waiting = next(i for i in cycle if ops[i].stage != ops[before[i]].stage)
    raise ScheduleError(
        f"schedule {name} cannot run: {ops[waiting]} waits for {ops[before[waiting]]}, "
        "which in turn waits for it"
    )
