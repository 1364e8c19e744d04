"""The relaxed problem where operations share clocks, as arrays.

    min  sum_g sum_c e_gc lambda_gc
    s.t. sum_c lambda_gc = 1;  d_gf = sum_c t_fc lambda_gc   for each group g and front f of its operations
         x_j >= x_i + d_i + lag_ij for each dependency,  x_end >= x_i + d_i for the last ones,  x_end <= T
         s_ghc >= lambda_hc - lambda_gc                       for groups g, h that follow each other on a stage
         sum_gh m_gh sum_c s_ghc <= K                         m_gh: how often h follows g
         lambda, s, x >= 0

A group is a set of operations of one stage with one set of weights lambda over clocks. With groups of one operation
each and K changes at most this relaxes the choice of clocks exactly as far as weights over whole sequences of
clocks would. Times are divided by `time_scale_s`, energies by `energy_scale_j` and changes by their number, as in
`segments`.

Columns: n starts x, x_end, the durations d, the weights lambda, the changes s. Rows: dependencies, last operations,
durations, sums of weights, changes, the limit on changes. Without a limit the last two are left out.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable

_DIGITS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedArrays:
    """The linear program: `matrix` between `row_lower` and `row_upper`, all columns at least 0.

    G groups, C clocks, P pairs of a group and a front.
    """

    table: ClockTable
    cost: Floats
    matrix: Any  # sparse, by rows
    row_lower: Floats
    row_upper: Floats
    sinks: Ints  # operations that nothing waits for
    end: int  # column of x_end
    duration_of: Ints  # [n] column of each operation's duration
    weight: Ints  # [G, C] column of each weight, -1 where a clock is not offered
    limit_row: int | None
    follow_count: int  # how many operations follow one of another group
    time_scale_s: float
    energy_scale_j: float


def build_shared(table: ClockTable, group_of: Ints, offered: Flags, *, limited: bool) -> SharedArrays:
    """Write the problem down; group_of [n] numbers each stage's groups from 0 on, offered [G, C] are their clocks.

    Every group needs an offered clock that all its operations were measured at. limited: with a row for K.
    """
    problem = table.problem
    builder = _Builder(problem.n_ops + 1)
    durations, duration_of = np.unique(group_of * len(problem.fronts) + problem.front_of, return_inverse=True)
    duration = builder.columns(len(durations))
    weight = np.full(offered.shape, -1)
    weight[offered] = builder.columns(int(offered.sum()))
    sinks = np.setdiff1d(np.arange(problem.n_ops), problem.graph.tail)
    time_scale_s = problem.paths.makespan_s(problem.fastest_s)
    _add_dependencies(builder, table, duration[duration_of], sinks, time_scale_s)
    _add_durations(builder, table, durations, duration, weight, time_scale_s)
    follows = _follows(table, group_of)
    limit_row = _add_changes(builder, weight, follows) if limited and follows else None
    energy_gC = _group_energy(table, group_of, len(offered))
    energy_scale_j = (
        max(problem.static_power_w * time_scale_s, float(np.abs(energy_gC[offered]).max())) or 1.0
    )
    cost = np.zeros(builder.width)
    cost[weight[offered]] = energy_gC[offered] / energy_scale_j
    return SharedArrays(
        table=table,
        cost=cost,
        matrix=builder.matrix(),
        row_lower=np.array(builder.lower),
        row_upper=np.array(builder.upper),
        sinks=sinks,
        end=problem.n_ops,
        duration_of=duration[duration_of],
        weight=weight,
        limit_row=limit_row,
        follow_count=max(follows.total(), 1),
        time_scale_s=time_scale_s,
        energy_scale_j=energy_scale_j,
    )


class _Builder:
    """Rows and columns as they come."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lower: list[float] = []
        self.upper: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []

    def columns(self, count: int) -> Ints:
        """New columns."""
        self.width += count
        return np.arange(self.width - count, self.width)

    def row(self, columns: list[int], values: list[float], lower: float, upper: float) -> None:
        """A new row."""
        self._rows += [len(self.lower)] * len(columns)
        self._columns += columns
        self._values += values
        self.lower.append(lower)
        self.upper.append(upper)

    def matrix(self) -> Any:
        """All rows."""
        entries = (self._values, (self._rows, self._columns))
        import scipy.sparse as sp  # type: ignore[import-untyped]  # loaded here: it takes a third of a second

        return sp.csr_matrix(entries, shape=(len(self.lower), self.width))


def _add_dependencies(
    builder: _Builder, table: ClockTable, duration_of: Ints, sinks: Ints, time_scale_s: float
) -> None:
    graph, end = table.problem.graph, table.problem.n_ops
    heads = [*graph.head.tolist(), *[end] * len(sinks)]
    tails = [*graph.tail.tolist(), *sinks.tolist()]
    lags_s = [*graph.lag_s.tolist(), *[0.0] * len(sinks)]
    for head, tail, lag_s in zip(heads, tails, lags_s, strict=True):
        duration = int(duration_of[tail])
        builder.row([head, tail, duration], [1.0, -1.0, -1.0], lag_s / time_scale_s, np.inf)


def _add_durations(
    builder: _Builder,
    table: ClockTable,
    durations: Ints,
    duration: Ints,
    weight: Ints,
    time_scale_s: float,
) -> None:
    for column, both in zip(duration.tolist(), durations.tolist(), strict=True):
        group, front = divmod(both, len(table.problem.fronts))
        clocks = np.flatnonzero(weight[group] >= 0)
        times = np.round(table.time_FC[front, clocks] / time_scale_s, _DIGITS)
        builder.row([column, *weight[group, clocks].tolist()], [1.0, *(-times).tolist()], 0.0, 0.0)
    for columns in weight:
        offered = columns[columns >= 0].tolist()
        builder.row(offered, [1.0] * len(offered), 1.0, 1.0)


def _follows(table: ClockTable, group_of: Ints) -> Counter[tuple[int, int]]:
    """How often one group follows another on a stage."""
    groups, follows = group_of.tolist(), table.follows.tolist()
    pairs = (pair for pair, one in zip(pairwise(groups), follows, strict=True) if one)
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def _add_changes(builder: _Builder, weight: Ints, follows: Counter[tuple[int, int]]) -> int:
    """Rows for changes between groups; return the row of the limit, whose upper end is for the caller to set."""
    columns: list[int] = []
    shares: list[float] = []
    for (group, next_group), often in follows.items():
        for clock in np.flatnonzero(weight[next_group] >= 0).tolist():
            (change,) = builder.columns(1).tolist()
            before = [int(weight[group, clock])] if weight[group, clock] >= 0 else []
            members = [change, int(weight[next_group, clock]), *before]
            builder.row(members, [1.0, -1.0, *[1.0] * len(before)], 0.0, np.inf)
            columns.append(change)
            shares.append(often / follows.total())
    builder.row(columns, shares, -np.inf, 1.0)
    return len(builder.lower) - 1


def _group_energy(table: ClockTable, group_of: Ints, groups: int) -> Floats:
    energy_gC = np.zeros((groups, len(table.clocks_mhz)))
    np.add.at(energy_gC, group_of, table.effective_nC)
    return energy_gC
