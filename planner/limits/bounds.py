"""Lower bounds on plans of few clock changes: Lagrangian duality, as in `certificate`, with a price on a change.

For any prices f >= 0 on the dependencies i -> j and on ending by the deadline T, and mu >= 0 on a clock change,
every plan that meets T with at most K changes costs at least

    sum_s V_s(p, mu)  +  sum_ij f_ij lag_ij  -  p_end T  -  mu K

with p_i the prices that leave operation i and V_s the least priced cost of stage s over all sequences of measured
clocks (`viterbi`). Prices must not vanish on their way: `conserved` passes on what a solver's rounding left over.
Where groups of operations must share a clock, V_s is a sum over groups and needs no price on changes.

The bound is linear in T and K, so every set of prices that was ever found bounds every deadline and limit.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.graph import Graph
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.viterbi import cheapest_sequences, priced_j


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """Prices of the m dependencies and of the n operations' ends in W, conserved, and of a clock change in J."""

    edge_flow_w: Floats
    sink_flow_w: Floats
    change_j: float

    def of_ops(self, graph: Graph) -> Floats:
        """What a second of each operation is worth, in W, [n]."""
        return np.asarray(np.bincount(graph.tail, self.edge_flow_w, graph.n_ops) + self.sink_flow_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """Effective energy of every plan of makespan T with at most K changes is at least what `at(T, K)` says."""

    intercept_j: float
    slope_w: float
    change_j: float

    def at(self, makespan_s: float, switches: float) -> float:
        """The bound, in joules; a price on changes bounds nothing where their number is not limited."""
        if np.isinf(switches):
            return self.intercept_j + self.slope_w * makespan_s if self.change_j == 0 else -np.inf
        return self.intercept_j + self.slope_w * makespan_s - self.change_j * switches


def conserved(graph: Graph, edge_flow_w: Floats, sink_flow_w: Floats, change_j: float = 0.0) -> Prices:
    """Prices that leave every operation with at least what entered it; what is short goes on in proportion."""
    edge_w = np.maximum(edge_flow_w, 0.0).tolist()
    sink_w = np.maximum(sink_flow_w, 0.0).tolist()
    entering, leaving = _edges_of(graph)
    for op in graph.order.tolist():
        comes = sum(edge_w[edge] for edge in entering[op])
        goes = sum(edge_w[edge] for edge in leaving[op]) + sink_w[op]
        if comes <= goes:
            continue
        if goes > 0:
            sink_w[op] *= comes / goes
            for edge in leaving[op]:
                edge_w[edge] *= comes / goes
        elif leaving[op]:
            edge_w[leaving[op][0]] = comes
        else:
            sink_w[op] = comes
    return Prices(edge_flow_w=np.array(edge_w), sink_flow_w=np.array(sink_w), change_j=max(change_j, 0.0))


def change_line(table: ClockTable, prices: Prices) -> LimitLine:
    """The bound that prices give for a limited number of changes."""
    price_w = prices.of_ops(table.problem.graph)
    found = cheapest_sequences(table, price_w, np.array([prices.change_j]))
    return _line(table, prices, float(found.cost_j[0]), prices.change_j)


def group_line(table: ClockTable, group_of: Ints, prices: Prices) -> LimitLine:
    """The bound that prices give where the operations of a group share a clock; group_of: [n], from 0."""
    cost_j = np.zeros((int(group_of.max()) + 1, len(table.clocks_mhz)))
    np.add.at(cost_j, group_of, priced_j(table, prices.of_ops(table.problem.graph)))
    return _line(table, prices, float(cost_j.min(axis=1).sum()), 0.0)


def _line(table: ClockTable, prices: Prices, priced_cost_j: float, change_j: float) -> LimitLine:
    graph = table.problem.graph
    leaving_w = prices.of_ops(graph)
    entering_w = np.bincount(graph.head, prices.edge_flow_w, graph.n_ops)
    unbalanced_w = float(np.minimum(0.0, leaving_w - entering_w).sum())
    return LimitLine(
        intercept_j=priced_cost_j + float(prices.edge_flow_w @ graph.lag_s),
        slope_w=-float(prices.sink_flow_w.sum()) + unbalanced_w,
        change_j=change_j,
    )


def _edges_of(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """The indices of the edges that enter and that leave each operation."""
    entering: list[list[int]] = [[] for _ in range(graph.n_ops)]
    leaving: list[list[int]] = [[] for _ in range(graph.n_ops)]
    for edge, (tail, head) in enumerate(zip(graph.tail.tolist(), graph.head.tolist(), strict=True)):
        leaving[tail].append(edge)
        entering[head].append(edge)
    return entering, leaving
