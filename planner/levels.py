"""Operations that can be looked at together: level by level, none of one level waits for another of it.

A pass over a long graph in numpy costs per call, not per operation, where each step takes a whole level.

Legend: n operations at their places in a topological order, L of a level, P of a level's most dependencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Operations at neighbouring places, and the others that they wait for, or that wait for them.

    near: those others, [P, L]; n for an operation that has none; one of them more than once where others have more.
    lag_s: the times between, [P, L, 1]; None where all are 0.
    """

    places: slice
    near: Ints
    lag_s: Floats | None

    def latest_s(self, finish_s: Floats) -> Floats:
        """When the last of the others lets each operation begin, for finish times [n + 1, W]; [L, W]."""
        found = self.others(0, finish_s)
        for row in range(1, len(self.near)):
            np.maximum(found, self.others(row, finish_s), out=found)
        return found

    def earliest_s(self, start_s: Floats) -> Floats:
        """When the first of the others needs each operation to end, for start times [n + 1, W]; [L, W]."""
        found = self.others(0, start_s, -1)
        for row in range(1, len(self.near)):
            np.minimum(found, self.others(row, start_s, -1), out=found)
        return found

    def others(self, row: int, times_s: Floats, sign: int = 1) -> Floats:
        """Times of one other of each operation, with the time between added; taken off with sign -1. [L, W]."""
        found: Floats = times_s.take(self.near[row], axis=0)
        if self.lag_s is not None:
            found += sign * self.lag_s[row]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """All levels in order: by what each operation waits for, and by what waits for it."""

    before: tuple[Level, ...]
    after: tuple[Level, ...]

    def finish_s(self, time_s: Floats) -> Floats:
        """When each operation ends if none waits longer than it must, for durations by places; [n, W] each."""
        finish_s = np.empty((len(time_s) + 1, time_s.shape[1]))
        finish_s[-1] = 0.0
        for level in self.before:
            ops = level.places
            np.add(level.latest_s(finish_s), time_s[ops], out=finish_s[ops])
        return finish_s[:-1]

    def latest_finish_s(self, time_s: Floats, deadline_s: Floats) -> Floats:
        """When each operation must end, for durations by places [n, W] and deadlines [W]; [n, W]."""
        start_s = np.empty((len(time_s) + 1, time_s.shape[1]))
        start_s[-1] = deadline_s
        finish_s = np.empty_like(time_s)
        for level in reversed(self.after):
            ops = level.places
            finish_s[ops] = end_s = level.earliest_s(start_s)
            np.subtract(end_s, time_s[ops], out=start_s[ops])
        return finish_s


def levels_of(graph: Graph) -> Levels:
    """Cut the graph's order into levels, in time linear in operations and dependencies."""
    n = graph.n_ops
    place = np.empty(n, dtype=np.int64)
    place[graph.order] = np.arange(n)
    tail, head = place[graph.tail], place[graph.head]
    latest = np.full(n, -1)
    np.maximum.at(latest, head, tail)
    begins = [0]
    for op, before in enumerate(latest.tolist()):
        if before >= begins[-1]:
            begins.append(op)
    cuts = [slice(*ends) for ends in zip(begins, [*begins[1:], n], strict=True)]
    return Levels(
        before=_cut(cuts, *_padded(n, head, tail, graph.lag_s)),
        after=_cut(cuts, *_padded(n, tail, head, graph.lag_s)),
    )


def _padded(n: int, here: Ints, there: Ints, lag_s: Floats) -> tuple[Ints, Ints, Floats]:
    """Numbers of dependencies [n], other ends and lags [most, n]: the first again where there are fewer."""
    order = np.argsort(here, kind="stable")
    here, there, lag_s = here[order], there[order], lag_s[order]
    count = np.bincount(here, minlength=n)
    rank = np.arange(len(here)) - (np.cumsum(count) - count)[here]
    most = max(int(count.max(initial=0)), 1)
    near, lags_s = np.full((most, n), n), np.zeros((most, n))
    near[rank, here], lags_s[rank, here] = there, lag_s
    missing = np.arange(most)[:, None] >= count
    return count, np.where(missing, near[0], near), np.where(missing, lags_s[0], lags_s)


def _cut(cuts: Sequence[slice], count: Ints, near: Ints, lag_s: Floats) -> tuple[Level, ...]:
    has_lag = (lag_s != 0).any(axis=0)
    found = []
    for places in cuts:
        most = max(int(count[places].max()), 1)
        found.append(
            Level(
                places=places,
                near=near[:most, places],
                lag_s=lag_s[:most, places, None] if has_lag[places].any() else None,
            )
        )
    return tuple(found)
