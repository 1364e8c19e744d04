"""Sweeps: one pass through the graph that lets every operation take the best option its time window allows.

A forward sweep starts each operation as early as the ones before it allow, and must end it by a given latest
finish; a backward sweep ends it as late as the ones after it allow, and must not start it before a given earliest
start. Whatever time an operation leaves unused is there for the next ones, so rounding errors do not add up.

Which option is best depends on what time is worth: the least effective energy + factor x price x time among the
options that fit, with the operation's price from a relaxed solution. Factor 0 takes all the time there is; 1
takes a slower option only if it pays at the price; a large factor hurries. `PriceTables` holds the answer for every
operation, price and factor, so that a sweep is a table look-up per operation, done for a whole population of plans
and all operations of a level (`planner.levels`) at once.

Legend: n operations in topological order (not that of `Schedule.ops`), W plans in a population (the columns), K
options of the longest front, A anchors (relaxed solutions that give prices), R price factors.
"""

from collections.abc import Callable, Sequence

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.levels import Level
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.fitting import Fitting
from energyopt.planner.realisation.price_tables import PriceTables
from energyopt.planner.realisation.shared_choices import Leaders, SharedChoices

_ROUNDING = 1e-12  # relative: what times that are equal may differ by once they are computed


class Sweeper:
    """The graph and the fronts, laid out for sweeps over populations of plans."""

    def __init__(self, problem: Problem, block_of: Ints | None = None, kind_of: Ints | None = None) -> None:
        """block_of, kind_of: which operations share a choice, see `SharedChoices`; none do if not given."""
        self.order: Ints = problem.graph.order.astype(np.int64)
        self._levels = problem.paths.levels
        self.front_of: Ints = problem.front_of[self.order].astype(np.int64)
        self._width = max(len(front.time_s) for front in problem.fronts)
        self._time_FK = _padded([front.time_s for front in problem.fronts], self._width)
        self._effective_FK = _padded([front.effective_j for front in problem.fronts], self._width)
        self.shared = None
        if block_of is not None and kind_of is not None:
            self.shared = SharedChoices(block_of, kind_of, self.order)
        self._fitting = self._fitted()
        steps_s = np.concatenate([np.diff(one[np.isfinite(one)]) for one in self._fitting.time_FK])
        self.step_s = float(np.median(steps_s)) if len(steps_s) else 0.0
        self._tolerance_s = _ROUNDING * problem.paths.makespan_s(problem.fastest_s)

    def _fitted(self) -> Fitting:
        """What fits is decided by an operation's time, or that of its whole block."""
        if self.shared is None:
            return Fitting(self._time_FK, self.front_of)
        examples = self.shared.examples()
        members = [self.shared.members(examples[kind : kind + 1])[:, 0] for kind in range(len(examples))]
        total_s = np.stack([self._time_FK[self.front_of[one]].sum(axis=0) for one in members])
        return Fitting(total_s, self.shared.kind_of)

    @property
    def fastest_s(self) -> Floats:
        """The shortest duration of each operation, [n]."""
        return np.asarray(self._time_FK.min(axis=1)[self.front_of])

    def time_s(self, choices: Choices) -> Floats:
        """Durations of chosen options, [n, W]."""
        return self._time_FK[self.front_of[:, None], choices]

    def effective_j(self, choices: Choices) -> Floats:
        """Effective energy of each plan, [W]."""
        chosen = self._effective_FK[self.front_of[:, None], choices]
        return np.asarray(chosen.sum(axis=0))

    def forward(
        self, latest_finish_s: Floats, tables: PriceTables, rows: Ints
    ) -> tuple[Choices, Floats, Floats]:
        """Choose from the first operation on; return choices, start and finish times, all [n, W].

        rows: table rows from `PriceTables.rows`, [W] or [n, W]. An operation for which nothing fits takes its
        fastest option and runs late. Where there are blocks, the latest finish that comes in and the start that
        goes out leave room for the whole block.
        """
        choices, finish_s = _empty(latest_finish_s)
        finish_s[-1] = 0.0
        start_s = np.empty_like(latest_finish_s)
        limit_s = latest_finish_s + self._tolerance_s
        choose = self._chooser(tables, rows, choices, None if self.shared is None else self.shared.first)
        for level in self._levels.before:
            ops = level.places
            begin_s = level.latest_s(finish_s)
            time_s = choose(limit_s[ops] - begin_s, ops)
            start_s[ops] = begin_s
            np.add(begin_s, time_s, out=finish_s[ops])
        if self.shared is not None:
            start_s -= self.shared.beside_s(finish_s[:-1] - start_s)
        return choices, start_s, finish_s[:-1]

    def backward(
        self, earliest_start_s: Floats, deadline_s: Floats, tables: PriceTables, rows: Ints
    ) -> tuple[Choices, Floats, Floats]:
        """Choose from the last operation back; return choices, start and finish times, all [n, W]."""
        choices, start_s = _empty(earliest_start_s)
        start_s[-1] = deadline_s
        finish_s = np.empty_like(earliest_start_s)
        limit_s = earliest_start_s - self._tolerance_s
        choose = self._chooser(tables, rows, choices, None if self.shared is None else self.shared.last)
        for level in reversed(self._levels.after):
            ops = level.places
            end_s = level.earliest_s(start_s)
            time_s = choose(end_s - limit_s[ops], ops)
            finish_s[ops] = end_s
            np.subtract(end_s, time_s, out=start_s[ops])
        if self.shared is not None:
            finish_s += self.shared.beside_s(finish_s - start_s[:-1])
        return choices, start_s[:-1], finish_s

    def _chooser(
        self, tables: PriceTables, rows: Ints, choices: Choices, leaders: Leaders | None
    ) -> Callable[[Floats, slice], Floats]:
        """What chooses the best options for room [L, W] of neighbouring operations, and gives the times they take.

        It writes into choices [n, W].
        """
        best, of_table = tables.best.ravel(), (tables.table_of * tables.best.shape[1])[:, None]
        shift = of_table - self._fitting.offset
        first = (self.front_of * self._width)[:, None]
        times_s, places = self._time_FK.ravel(), self._fitting.places
        per_op, per_plan = (rows + shift, None) if rows.ndim > 1 else (shift, rows)

        def choose(room_s: Floats, ops: slice) -> Floats:
            found = places(room_s, ops)
            found += per_op[ops]
            if per_plan is not None:
                found += per_plan
            chosen: Choices = best.take(found)
            if leaders is not None:
                leaders.copy(chosen, choices, ops)
            choices[ops] = chosen
            return times_s.take(chosen + first[ops])

        return choose

    def latest_finish_s(self, time_s: Floats, deadline_s: Floats) -> Floats:
        """When each operation must end for given durations [n, W] and deadlines [W]."""
        finish_s = self._levels.latest_finish_s(time_s, deadline_s)
        return finish_s if self.shared is None else finish_s + self.shared.beside_s(time_s)

    def agreed(self, choices: Choices) -> Choices:
        """Choices [n, W] in which each block's operations take what the first of them does."""
        return choices if self.shared is None else choices[self.shared.first.place]

    def alike_s(self, time_s: Floats) -> Floats:
        """Durations [n, W] with each block's time shared out as one option, or two, would need it."""
        if self.shared is None:
            return time_s
        total_s = time_s + self.shared.beside_s(time_s)
        found = np.empty_like(time_s)
        for front in np.unique(self.front_of):
            ops = np.flatnonzero(self.front_of == front)  # all in blocks of one kind
            own_s, totals_s = self._time_FK[front], self._fitting.time_FK[self.shared.kind_of[ops[0]]]
            known = np.isfinite(own_s)
            found[ops] = np.interp(total_s[ops], totals_s[known], own_s[known])
        return found

    def longest_paths(self, time_s: Floats, spare_s: Floats) -> tuple[Floats, Floats]:
        """The longest path through each operation and the sum of `spare_s` along it, for durations [n, W]."""
        ahead_s, ahead_spare_s = _one_way(self._levels.before, time_s, spare_s)
        behind_s, behind_spare_s = _one_way(self._levels.after[::-1], time_s, spare_s)
        return ahead_s + behind_s - time_s, ahead_spare_s + behind_spare_s - spare_s

    def makespan_s(self, time_s: Floats) -> Floats:
        """The longest path for given durations [n, W], [W]."""
        return np.asarray(self._levels.finish_s(time_s).max(axis=0))


def _empty(times_s: Floats) -> tuple[Choices, Floats]:
    """Arrays for choices [n, W], and for times with one more row: for operations that wait for none."""
    n, width = times_s.shape
    return np.empty((n, width), dtype=np.int16), np.empty((n + 1, width))


def _one_way(levels: Sequence[Level], time_s: Floats, spare_s: Floats) -> tuple[Floats, Floats]:
    """The longest path from one end up to and with each operation, and what it can spare, [n, W].

    Of equally long paths that of the first dependency counts.
    """
    reach_s, total_s = (np.empty((len(one) + 1, one.shape[1])) for one in (time_s, spare_s))
    reach_s[-1], total_s[-1] = 0.0, 0.0
    for level in levels:
        ops = level.places
        longest_s, along_s = level.others(0, reach_s), total_s.take(level.near[0], axis=0)
        for row in range(1, len(level.near)):
            candidate_s = level.others(row, reach_s)
            longer = candidate_s > longest_s
            np.copyto(longest_s, candidate_s, where=longer)
            np.copyto(along_s, total_s.take(level.near[row], axis=0), where=longer)
        np.add(longest_s, time_s[ops], out=reach_s[ops])
        np.add(along_s, spare_s[ops], out=total_s[ops])
    return reach_s[:-1], total_s[:-1]


def _padded(rows: list[Floats], width: int) -> Floats:
    table = np.full((len(rows), width), np.inf)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table
