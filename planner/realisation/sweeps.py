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
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.levels import Level
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.blocks import Leaders, blocks_of
from energyopt.planner.realisation.fitting import Fitting

FACTORS = np.array([0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0, 1.2, 1.6, 3.0, 1e6])  # the last ones only disturb
GENTLE = 7  # the factors before this index are for rounding
_ROUNDING = 1e-12  # relative: what times and costs that are equal may differ by once they are computed


class Sweeper:
    """The graph and the fronts, laid out for sweeps over populations of plans."""

    def __init__(self, problem: Problem, block_of: Ints | None = None) -> None:
        """block_of: consecutive operations that share a choice have one number, as in `Schedule.ops`, [n]."""
        self.order: Ints = problem.graph.order.astype(np.int64)
        self._paths, self._levels = problem.paths, problem.paths.levels
        self.front_of: Ints = problem.front_of[self.order].astype(np.int64)
        self.width = max(len(front.time_s) for front in problem.fronts)
        self._time_FK = _padded([front.time_s for front in problem.fronts], self.width)
        self._effective_FK = _padded([front.effective_j for front in problem.fronts], self.width)
        self.blocks = None if block_of is None else blocks_of(block_of, self.order)
        self._leaders = (None, None) if self.blocks is None else self.blocks.leaders
        self._fitting = self._fitted()
        steps_s = np.concatenate([np.diff(front.time_s) for front in problem.fronts])
        self.step_s = float(np.median(steps_s)) if len(steps_s) else 0.0
        self._tolerance_s = _ROUNDING * problem.paths.makespan_s(problem.fastest_s)

    def _fitted(self) -> Fitting:
        """What fits is decided by an operation's time, or that of its whole block."""
        if self.blocks is None:
            return Fitting(self._time_FK, self.front_of)
        front_of = np.append(self.front_of, len(self._time_FK))
        times_s = np.concatenate((self._time_FK, np.zeros((1, self.width))))
        kinds, kind_of = np.unique(front_of[self.blocks.members], axis=1, return_inverse=True)
        return Fitting(times_s[kinds].sum(axis=0), kind_of.ravel())

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
        fastest option and runs late. Where there are blocks, the latest finish that comes in and the start that
        goes out leave room for the whole block.
        """
        choices, finish_s = _empty(latest_finish_s)
        finish_s[-1] = 0.0
        start_s = np.empty_like(latest_finish_s)
        limit_s = latest_finish_s + self._tolerance_s
        choose = self._chooser(tables, rows, choices, self._leaders[0])
        for level in self._levels.before:
            ops = level.places
            begin_s = level.latest_s(finish_s)
            time_s = choose(limit_s[ops] - begin_s, ops)
            start_s[ops] = begin_s
            np.add(begin_s, time_s, out=finish_s[ops])
        if self.blocks is not None:
            start_s -= self.blocks.beside_s(finish_s[:-1] - start_s)
        return choices, start_s, finish_s[:-1]

    def backward(
        self, earliest_start_s: Floats, deadline_s: Floats, tables: "PriceTables", rows: Ints
    ) -> tuple[Choices, Floats, Floats]:
        """Choose from the last operation back; return choices, start and finish times, all [n, W]."""
        choices, start_s = _empty(earliest_start_s)
        start_s[-1] = deadline_s
        finish_s = np.empty_like(earliest_start_s)
        limit_s = earliest_start_s - self._tolerance_s
        choose = self._chooser(tables, rows, choices, self._leaders[1])
        for level in reversed(self._levels.after):
            ops = level.places
            end_s = level.earliest_s(start_s)
            time_s = choose(end_s - limit_s[ops], ops)
            finish_s[ops] = end_s
            np.subtract(end_s, time_s, out=start_s[ops])
        if self.blocks is not None:
            finish_s += self.blocks.beside_s(finish_s - start_s[:-1])
        return choices, start_s[:-1], finish_s

    def _chooser(
        self, tables: "PriceTables", rows: Ints, choices: Choices, leaders: Leaders | None
    ) -> Callable[[Floats, slice], Floats]:
        """What chooses the best options for room [L, W] of neighbouring operations, and gives the times they take.

        It writes into choices [n, W].
        """
        best, of_table = tables.best.ravel(), (tables.table_of * tables.best.shape[1])[:, None]
        shift = of_table - self._fitting.offset
        first = (self.front_of * self.width)[:, None]
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
        start_s = np.empty((len(time_s) + 1, time_s.shape[1]))
        start_s[-1] = deadline_s
        finish_s = np.empty_like(time_s)
        for level in reversed(self._levels.after):
            ops = level.places
            finish_s[ops] = end_s = level.earliest_s(start_s)
            np.subtract(end_s, time_s[ops], out=start_s[ops])
        return finish_s if self.blocks is None else finish_s + self.blocks.beside_s(time_s)

    def alike_s(self, time_s: Floats) -> Floats:
        """Durations [n, W] with each block's time shared out as one option, or two, would need it."""
        if self.blocks is None:
            return time_s
        total_s = time_s + self.blocks.beside_s(time_s)
        found = np.empty_like(time_s)
        kinds = np.stack((self.front_of, self._fitting.front_of))
        for front, kind in np.unique(kinds, axis=1).T.tolist():
            ops = (self.front_of == front) & (self._fitting.front_of == kind)
            own_s, totals_s = self._time_FK[front], self._fitting.time_FK[kind]
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
        by_op_s = np.empty_like(time_s)
        by_op_s[self.order] = time_s
        return self._paths.makespans_s(by_op_s)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriceTables:
    """For each operation, anchor and factor: the best option among the fastest k ones, for k = 0..K."""

    best: Choices  # [tables, A * R * (K + 1)]
    table_of: Ints  # [n]
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
    members = np.arange(len(price_w))[None] if sweeper.blocks is None else sweeper.blocks.members
    first, table_of = _tables(members, group_of)
    options = sweeper.width
    best = np.zeros((len(first), price_w.shape[1], len(FACTORS), options + 1), dtype=np.int16)
    for index, front in enumerate(problem.fronts):
        own = np.flatnonzero(sweeper.front_of[first] == index)
        count = len(front.time_s)
        cost_j = np.zeros((len(own), price_w.shape[1], len(FACTORS), count))
        for member in members[:, first[own]]:
            if member.size and member[0] < len(price_w):
                part = problem.fronts[sweeper.front_of[member[0]]]
                price = price_w[member][:, :, None, None]
                cost_j += part.effective_j + FACTORS[:, None] * price * part.time_s
        tie_j = _ROUNDING * np.abs(cost_j).max(axis=-1, keepdims=True)
        is_best = cost_j <= np.minimum.accumulate(cost_j, axis=-1) + tie_j
        ranks = np.where(is_best, np.arange(count, dtype=np.int16), np.int16(0))
        best[own, :, :, 1 : count + 1] = np.maximum.accumulate(ranks, axis=-1)
    return PriceTables(best=best.reshape(len(first), -1), table_of=table_of, options=options)


def _tables(members: Ints, group_of: Ints) -> tuple[Ints, Ints]:
    """One operation of each table, and the table of each operation, [n]: by the groups of its block's members."""
    if len(members) == 1:
        groups, first = np.unique(group_of, return_index=True)
        return first, np.searchsorted(groups, group_of)
    padded = np.append(group_of, -1)
    _, first, table_of = np.unique(padded[members], axis=1, return_index=True, return_inverse=True)
    return first, table_of.ravel()


def _padded(rows: list[Floats], width: int) -> Floats:
    table = np.full((len(rows), width), np.inf)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table
