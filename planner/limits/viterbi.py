"""The cheapest sequence of clocks for every stage when time and clock changes have prices, by exact recursion.

With prices p >= 0 on the operations' time and mu >= 0 on a clock change, each stage on its own minimises

    sum_i (e_i(c_i) + p_i t_i(c_i))  +  mu x (changes between consecutive operations)

over all sequences of measured clocks. The best cost of ending at a clock is that of ending there before, or that of
the best other clock plus mu: n x C steps. All stages and any number of change prices are done at once.

Legend: n operations as in `Schedule.ops`, C clocks, S stages, M change prices, L operations of the longest stage.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable, Variants


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequences:
    """For each change price the least priced cost over all plans, [M], and a plan that has it, [n, M]."""

    cost_j: Floats
    plans: Choices


def cheapest_sequences(table: ClockTable, price_w: Floats, change_price_j: Floats) -> Sequences:
    """Sequences for prices [n] of time and [M] of changes; ties stay at the clock before.

    The recursion adds and compares only; it trusts no solver, so its value bounds every plan from below.
    """
    costs = _by_position(table, priced_j(table, price_w))
    best, source, changed = _forward(costs, change_price_j)
    last = best.argmin(axis=2)
    plans = _backward(last, source, changed)
    cost_j = np.take_along_axis(best, last[:, :, None], axis=2)[:, :, 0].sum(axis=1)
    return Sequences(cost_j=cost_j, plans=_by_op(table, plans))


def priced_j(table: ClockTable, price_w: Floats) -> Floats:
    """Effective energy plus priced time of each operation at each clock, [n, C]; infinite where not measured.

    Where a front has several options at a clock, the cheapest at these prices counts.
    """
    time_s = np.where(np.isinf(table.time_nC), 0.0, table.time_nC)
    cost_j = table.effective_nC + price_w[:, None] * time_s
    for front, variants in enumerate(table.variants):
        if variants is not None:
            ops = np.flatnonzero(table.problem.front_of == front)
            cost_j[ops] = _cheapest_j(variants, price_w[ops])
    return cost_j


def _cheapest_j(variants: Variants, price_w: Floats) -> Floats:
    """The least priced cost at each clock for prices [n], [n, C]."""
    every_j = variants.effective_j + price_w[:, None] * variants.time_s
    found = np.full((len(price_w), len(variants.start) - 1), np.inf)
    there = np.flatnonzero(np.diff(variants.start))
    found[:, there] = np.minimum.reduceat(every_j, variants.start[there], axis=1)
    return found


def _by_position(table: ClockTable, cost_j: Floats) -> Floats:
    """Costs as [L, S, C]; shorter stages end in operations that cost nothing at any clock."""
    lengths = np.diff(table.first)
    costs = np.zeros((int(lengths.max()), len(lengths), cost_j.shape[1]))
    for stage, length in enumerate(lengths.tolist()):
        costs[:length, stage] = cost_j[table.first[stage] : table.first[stage + 1]]
    return costs


def _forward(costs: Floats, change_price_j: Floats) -> tuple[Floats, Ints, Flags]:
    """The final costs [M, S, C], and for every position the best clock before it and whether to come from it."""
    length, stages, clocks = costs.shape
    shape = len(change_price_j), stages
    source = np.zeros((length, *shape), dtype=np.int64)
    changed = np.zeros((length, *shape, clocks), dtype=np.bool_)
    best = np.broadcast_to(costs[0], (*shape, clocks))
    for position in range(1, length):
        source[position] = best.argmin(axis=2)
        coming = best.min(axis=2)[:, :, None] + change_price_j[:, None, None]
        np.less(coming, best, out=changed[position])
        best = np.minimum(best, coming) + costs[position]
    return best, source, changed


def _backward(clock: Ints, source: Ints, changed: Flags) -> Choices:
    """The clocks at every position, [L, M, S], from the last one's, [M, S]."""
    plans = np.empty(source.shape, dtype=np.int16)
    for position in range(len(source) - 1, -1, -1):
        plans[position] = clock
        came = np.take_along_axis(changed[position], clock[:, :, None], axis=2)[:, :, 0]
        clock = np.where(came, source[position], clock)
    return plans


def _by_op(table: ClockTable, plans: Choices) -> Choices:
    """From [L, M, S] to [n, M]."""
    lengths = np.diff(table.first).tolist()
    return np.concatenate([plans[:length, :, stage] for stage, length in enumerate(lengths)])
