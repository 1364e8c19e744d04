"""Sweeps: one pass through the graph that lets every operation take the best option its time window allows.

A forward sweep starts each operation as early as the ones before it allow, and must end it by a given latest
finish; a backward sweep ends it as late as the ones after it allow, and must not start it before a given earliest
start. Whatever time an operation leaves unused is there for the next ones, so rounding errors do not add up.

Which option is best depends on what time is worth: the least effective energy + factor x price x time among the
options that fit, with the operation's price from a relaxed solution. Factor 0 takes all the time there is; 1
takes a slower option only if it pays at the price; a large factor hurries. `PriceTables` holds the answer for every
operation, price and factor, so that a sweep is a table look-up per operation, done for a whole population of plans
at once.

Legend: n operations in topological order (not that of `Schedule.ops`), W plans in a population (the columns), K
options of the longest front, A anchors (relaxed solutions that give prices), R price factors.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.problem import Problem

FACTORS = np.array([0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0, 1.2, 1.6, 3.0, 1e6])  # the last ones only disturb
GENTLE = 7  # the factors before this index are for rounding
_ROUNDING = 1e-12  # relative: what times and costs that are equal may differ by once they are computed


class Sweeper:
    """The graph and the fronts, laid out for sweeps over populations of plans."""

    def __init__(self, problem: Problem) -> None:
        self.order: Ints = problem.graph.order.astype(np.int64)
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        self._paths = paths = problem.paths
        self._before = [[(int(place[i]), lag) for i, lag in paths.predecessors[op]] for op in self.order]
        self._after = [[(int(place[i]), lag) for i, lag in paths.successors[op]] for op in self.order]
        self.front_of = problem.front_of[self.order]
        self._times = [problem.fronts[front].time_s for front in self.front_of]
        self.width = max(len(front.time_s) for front in problem.fronts)
        self._time_FK = _padded([front.time_s for front in problem.fronts], self.width)
        self._effective_FK = _padded([front.effective_j for front in problem.fronts], self.width)
        steps_s = np.concatenate([np.diff(front.time_s) for front in problem.fronts])
        self.step_s = float(np.median(steps_s)) if len(steps_s) else 0.0
        self._tolerance_s = _ROUNDING * problem.paths.makespan_s(problem.fastest_s)

    def time_s(self, choices: Choices) -> Floats:
        """Durations of chosen options, [n, W]."""
        return self._time_FK[self.front_of[:, None], choices]

    def effective_j(self, choices: Choices) -> Floats:
        """Effective energy of each plan, [W]."""
        chosen = self._effective_FK[self.front_of[:, None], choices]
        return np.asarray(chosen.sum(axis=0))

    def forward(
        self, latest_finish_s: Floats, tables: "PriceTables", rows: Ints
    ) -> tuple[Choices, Floats, Floats]:
        """Choose from the first operation on; return choices, start and finish times, all [n, W].

        rows: table rows from `PriceTables.rows`, [W] or [n, W]. An operation for which nothing fits takes its
        fastest option and runs late.
        """
        n, width = latest_finish_s.shape
        choices, begin_s, finish_s = np.empty((n, width), dtype=np.int16), *np.empty((2, n, width))
        limit_s = latest_finish_s + self._tolerance_s
        origin = np.zeros(width)
        row_of = np.broadcast_to(rows, (n, width))
        for op, (times_s, best) in enumerate(zip(self._times, tables.best, strict=True)):
            begin_s[op] = start_s = _latest(finish_s, self._before[op], origin)
            fitting = times_s.searchsorted(limit_s[op] - start_s, side="right")
            fitting += row_of[op]
            chosen = best.take(fitting)
            choices[op] = chosen
            np.add(start_s, times_s.take(chosen), out=finish_s[op])
        return choices, begin_s, finish_s

    def backward(
        self, earliest_start_s: Floats, deadline_s: Floats, tables: "PriceTables", rows: Ints
    ) -> tuple[Choices, Floats, Floats]:
        """Choose from the last operation back; return choices, start and finish times, all [n, W]."""
        n, width = earliest_start_s.shape
        choices, start_s, finish_s = np.empty((n, width), dtype=np.int16), *np.empty((2, n, width))
        limit_s = earliest_start_s - self._tolerance_s
        row_of = np.broadcast_to(rows, (n, width))
        for op in range(n - 1, -1, -1):
            times_s = self._times[op]
            finish_s[op] = end_s = _earliest(start_s, self._after[op], deadline_s)
            fitting = times_s.searchsorted(end_s - limit_s[op], side="right")
            fitting += row_of[op]
            chosen = tables.best[op].take(fitting)
            choices[op] = chosen
            np.subtract(end_s, times_s.take(chosen), out=start_s[op])
        return choices, start_s, finish_s

    def latest_finish_s(self, time_s: Floats, deadline_s: Floats) -> Floats:
        """When each operation must end for given durations [n, W] and deadlines [W]."""
        start_s, finish_s = np.empty_like(time_s), np.empty_like(time_s)
        for op in range(len(time_s) - 1, -1, -1):
            finish_s[op] = _earliest(start_s, self._after[op], deadline_s)
            np.subtract(finish_s[op], time_s[op], out=start_s[op])
        return finish_s

    def longest_paths(self, time_s: Floats, spare_s: Floats) -> tuple[Floats, Floats]:
        """The longest path through each operation and the sum of `spare_s` along it, for durations [n, W]."""
        ahead_s, ahead_spare_s = self._one_way(range(len(time_s)), self._before, time_s, spare_s)
        behind_s, behind_spare_s = self._one_way(range(len(time_s) - 1, -1, -1), self._after, time_s, spare_s)
        return ahead_s + behind_s - time_s, ahead_spare_s + behind_spare_s - spare_s

    def _one_way(
        self, order: range, near: list[list[tuple[int, float]]], time_s: Floats, spare_s: Floats
    ) -> tuple[Floats, Floats]:
        """The longest path from one end up to and with each operation, and what it can spare, [n, W]."""
        reach_s, total_s = np.empty_like(time_s), np.empty_like(time_s)
        for op in order:
            longest_s, along_s = np.zeros(time_s.shape[1]), np.zeros(time_s.shape[1])
            for other, lag_s in near[op]:
                candidate_s = reach_s[other] + lag_s
                longer = candidate_s > longest_s
                longest_s = np.where(longer, candidate_s, longest_s)
                along_s = np.where(longer, total_s[other], along_s)
            np.add(longest_s, time_s[op], out=reach_s[op])
            np.add(along_s, spare_s[op], out=total_s[op])
        return reach_s, total_s

    def makespan_s(self, time_s: Floats) -> Floats:
        """The longest path for given durations [n, W], [W]."""
        by_op_s = np.empty_like(time_s)
        by_op_s[self.order] = time_s
        return self._paths.makespans_s(by_op_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriceTables:
    """For each operation, anchor and factor: the best option among the fastest k ones, for k = 0..K."""

    best: list[Choices]  # per operation a flat [A * R * (K + 1)]
    options: int  # K

    def rows(self, anchor: Ints, factor: Ints) -> Ints:
        """Where the rows of given anchors and factors begin; the arguments broadcast."""
        return np.asarray((anchor * len(FACTORS) + factor) * (self.options + 1))


def price_tables(
    problem: Problem, sweeper: Sweeper, price_w: Floats, group_of: Ints | None = None
) -> PriceTables:
    """Tabulate the best options for prices [n, A], operations in the sweeper's order.

    group_of: operations of one group [n] have one front and the same prices, so that they share a table; each has
        its own if not given.
    """
    group_of = np.arange(len(price_w)) if group_of is None else group_of
    groups, first = np.unique(group_of, return_index=True)
    options = sweeper.width
    best = np.zeros((len(groups), price_w.shape[1], len(FACTORS), options + 1), dtype=np.int16)
    for index, front in enumerate(problem.fronts):
        own = np.flatnonzero(sweeper.front_of[first] == index)
        count = len(front.time_s)
        cost_j = front.effective_j + FACTORS[:, None] * price_w[first[own]][:, :, None, None] * front.time_s
        tie_j = _ROUNDING * np.abs(cost_j).max(axis=-1, keepdims=True)
        is_best = cost_j <= np.minimum.accumulate(cost_j, axis=-1) + tie_j
        ranks = np.where(is_best, np.arange(count, dtype=np.int16), np.int16(0))
        best[own, :, :, 1 : count + 1] = np.maximum.accumulate(ranks, axis=-1)
    tables = list(best.reshape(len(groups), -1))
    return PriceTables(
        best=[tables[one] for one in np.searchsorted(groups, group_of).tolist()], options=options
    )


def _latest(finish_s: Floats, before: list[tuple[int, float]], origin: Floats) -> Floats:
    """The start that the operations before allow."""
    start_s = origin
    for position, (op, lag_s) in enumerate(before):
        ready_s = finish_s[op] + lag_s if lag_s else finish_s[op]
        start_s = ready_s if position == 0 else np.maximum(start_s, ready_s)
    return start_s


def _earliest(start_s: Floats, after: list[tuple[int, float]], deadline_s: Floats) -> Floats:
    """The end that the operations after allow."""
    end_s = deadline_s
    for position, (op, lag_s) in enumerate(after):
        needed_s = start_s[op] - lag_s if lag_s else start_s[op]
        end_s = needed_s if position == 0 else np.minimum(end_s, needed_s)
    return end_s


def _padded(rows: list[Floats], width: int) -> Floats:
    table = np.full((len(rows), width), np.inf)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table
