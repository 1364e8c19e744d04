"""Start times of many plans at once: the graph in levels whose operations do not wait for each other.

Legend: n operations as in `Schedule.ops`, W plans (columns).
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Operations [L] in one level; `before` [B, L] and `lag_s` [B, L, 1] are what each waits for."""

    ops: Ints
    before: Ints
    lag_s: Floats | None


class Levels:
    """Longest paths by levels: a few array operations for each, whatever the number of plans."""

    def __init__(self, graph: Graph) -> None:
        depth = np.zeros(graph.n_ops, dtype=np.int64)
        for op in graph.order.tolist():
            depth[op] = 1 + max((depth[before] for before, _ in graph.predecessors[op]), default=-1)
        self._n = graph.n_ops
        self._levels = [
            _level(graph, np.flatnonzero(depth == index)) for index in range(int(depth.max(initial=-1)) + 1)
        ]

    def finish_s(self, time_s: Floats) -> Floats:
        """When each operation ends for durations [n, W] if none waits longer than it must, [n, W]."""
        finish_s = np.zeros((self._n + 1, time_s.shape[1]))  # the last row stands for the iteration's start
        for level in self._levels:
            ready_s = finish_s[level.before[0]]
            if level.lag_s is not None:
                ready_s += level.lag_s[0]
            for row in range(1, len(level.before)):
                other_s = finish_s[level.before[row]]
                if level.lag_s is not None:
                    other_s += level.lag_s[row]
                np.maximum(ready_s, other_s, out=ready_s)
            ready_s += time_s[level.ops]
            finish_s[level.ops] = ready_s
        return finish_s[:-1]

    def makespan_s(self, time_s: Floats) -> Floats:
        """The longest path for durations [n, W], [W]."""
        return np.asarray(self.finish_s(time_s).max(axis=0))


def _level(graph: Graph, ops: Ints) -> Level:
    """Pad what the operations wait for to equal lengths with the iteration's start."""
    needs = [graph.predecessors[op] for op in ops.tolist()]
    width = max(1, *(len(one) for one in needs))
    before = np.full((width, len(ops)), graph.n_ops)
    lag_s = np.zeros((width, len(ops), 1))
    for column, one in enumerate(needs):
        for row, (tail, lag) in enumerate(one):
            before[row, column], lag_s[row, column] = tail, lag
    return Level(ops=ops, before=before, lag_s=lag_s if lag_s.any() else None)
