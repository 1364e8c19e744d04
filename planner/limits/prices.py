"""Prices of time and of clock changes for deadlines and limits, and the bounds that they prove.

Every set of prices bounds every deadline and limit, so the book only grows better; each is kept with the price of a
change that proves most at the limit it was made for.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.curve import Curve
from energyopt.planner.formulations.shared import build_shared
from energyopt.planner.formulations.shared_highs import SharedClockSolver
from energyopt.planner.limits.bounds import LimitLine, Prices, change_line, conserved, group_line
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.groups import offered_clocks, ramp_groups
from energyopt.planner.limits.viterbi import cheapest_sequences

_WORKERS = 2
_MANY = 1e6  # changes that are as good as not limited
_TIME_WEIGHS = 20.0  # a deadline this part of it away is as far as e times the changes
_CHANGE_PRICES = np.concatenate(
    ([0.0], np.geomspace(1e-5, 1.0, 33))
)  # shares of the dearest change that can pay
_REFINED = np.geomspace(0.7, 1.4, 15)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """Prices, the deadline and number of changes they were made for, and the bound that they prove."""

    deadline_s: float
    switches: float
    prices: Prices
    line: LimitLine


class PriceBook:
    """Prices for one number of changes, or for groups that share clocks; begins with those of the free curve.

    group_of: [n] groups that must share a clock, or None where changes are limited.
    """

    def __init__(self, table: ClockTable, curve: Curve, group_of: Ints | None = None) -> None:
        self._table = table
        self._curve = curve
        self._group_of = group_of
        self.entries: list[Entry] = []

    @property
    def is_grouped(self) -> bool:
        """Whether the bounds are of plans whose groups share clocks."""
        return self._group_of is not None

    def free_bound_j(self, makespan_s: float) -> float:
        """The lower bound on all plans."""
        return self._curve.bound_j(makespan_s)

    def borrow_free(self, deadline_s: float, switches: float) -> None:
        """Enter the prices of the free curve's nearest solution."""
        point = min(self._curve.points, key=lambda one: abs(one.deadline_s - deadline_s))
        relaxed = point.relaxed
        graph = self._table.problem.graph
        self._enter(deadline_s, switches, conserved(graph, relaxed.edge_flow_w, relaxed.sink_flow_w))

    def solve(self, wished: Iterable[tuple[float, float]]) -> None:
        """Solve the relaxed problem for deadlines and numbers of changes; each is independent of the others."""
        tasks = list(wished)
        with ThreadPoolExecutor(_WORKERS) as pool:
            for (deadline_s, switches), prices in zip(tasks, pool.map(self._solved, tasks), strict=True):
                if prices is not None:
                    self._enter(deadline_s, switches, prices)

    def bound_j(self, makespan_s: float, switches: float) -> float:
        """The best lower bound, the free one included, on the energy of a plan, static energy included."""
        static_j = self._table.problem.static_power_w * makespan_s
        lines = [entry.line.at(makespan_s, switches) + static_j for entry in self.entries]
        return max(self._curve.bound_j(makespan_s), *lines)

    def guides(self, deadline_s: float, switches: float, count: int) -> list[Entry]:
        """The entries made for the nearest deadlines and numbers of changes, the nearest first."""

        def distance(entry: Entry) -> float:
            apart = abs(np.log1p(min(entry.switches, _MANY)) - np.log1p(min(switches, _MANY)))
            return round(_TIME_WEIGHS * abs(entry.deadline_s / deadline_s - 1) + float(apart), 9)

        return sorted(self.entries, key=distance)[:count]

    def _solved(self, task: tuple[float, float]) -> Prices | None:
        group_of = ramp_groups(self._table.problem.schedule) if self._group_of is None else self._group_of
        offered = offered_clocks(self._table, group_of)
        arrays = build_shared(self._table, group_of, offered, limited=self._group_of is None)
        solution = SharedClockSolver(arrays, interior=True).solve(*task)
        return None if solution is None else solution.prices

    def _enter(self, deadline_s: float, switches: float, prices: Prices) -> None:
        if self._group_of is not None:
            line = group_line(self._table, self._group_of, prices)
        else:
            prices = best_change_price(self._table, prices, switches)
            line = change_line(self._table, prices)
        self.entries.append(Entry(deadline_s=deadline_s, switches=switches, prices=prices, line=line))


def best_change_price(table: ClockTable, prices: Prices, switches: float) -> Prices:
    """The same prices of time with the price of a change that bounds plans of so many changes best.

    The bound is concave in that price: a coarse search, then a fine one around the best.
    """
    if np.isinf(switches):
        return replace(prices, change_j=0.0)
    price_w = prices.of_ops(table.problem.graph)
    finite_j = np.where(np.isfinite(table.effective_nC), table.effective_nC, np.nan)
    dearest_j = float((np.nanmax(finite_j, axis=1) - np.nanmin(finite_j, axis=1)).sum()) or 1.0
    coarse = _best_of(table, price_w, dearest_j * _CHANGE_PRICES, switches)
    tried = np.concatenate((coarse * _REFINED, prices.change_j * _REFINED[4:-4]))
    return replace(prices, change_j=_best_of(table, price_w, np.append(tried, coarse), switches))


def _best_of(table: ClockTable, price_w: Floats, change_j: Floats, switches: float) -> float:
    cost_j = cheapest_sequences(table, price_w, change_j).cost_j - change_j * switches
    return float(change_j[int(cost_j.argmax())])
