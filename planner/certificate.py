"""A lower bound that needs no trust in the solver: Lagrangian duality over the measured operating points.

For any prices f >= 0 on the dependencies i -> j and on ending by the deadline T, every plan that meets T costs at
least

    sum_i min_k (e_ik + p_i t_ik)  +  sum_ij f_ij lag_ij  -  p_end T  +  sum_j min(0, p_j - in_j) T

with p_i the prices that leave operation i, in_j those that enter j, p_end the total price of the deadline. The last
sum is the price of a solver's rounding: it vanishes where prices are conserved. The minimum runs over all measured
options, before any pruning. The bound is linear in T, so one set of prices bounds every deadline.

Where microbatches can be cut into nanobatches, whatever is done to one on a stage has to keep to one way of cutting
it: the minimum then is over ways first, for each microbatch of each chunk of a stage.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLine:
    """Effective energy of every plan of makespan T is at least `intercept_j + slope_w * T`."""

    intercept_j: float
    slope_w: float

    def at(self, makespan_s: float) -> float:
        """The bound for plans of one makespan, in joules."""
        return self.intercept_j + self.slope_w * makespan_s


def certify(problem: Problem, edge_flow_w: Floats, sink_flow_w: Floats) -> BoundLine:
    """Turn prices of the m dependencies and of the n operations' ends into a bound; negative ones count as 0."""
    graph, n = problem.graph, problem.n_ops
    edge_flow_w, sink_flow_w = np.maximum(edge_flow_w, 0.0), np.maximum(sink_flow_w, 0.0)
    leaving = np.bincount(graph.tail, edge_flow_w, n) + sink_flow_w
    entering = np.bincount(graph.head, edge_flow_w, n)
    unbalanced = float(np.minimum(0.0, leaving - entering).sum())
    return BoundLine(
        intercept_j=_cheapest_j(problem, leaving) + float(edge_flow_w @ graph.lag_s),
        slope_w=-float(sink_flow_w.sum()) + unbalanced,
    )


def _cheapest_j(problem: Problem, price_w: Floats) -> float:
    """The least priced energy of all operations, each at one of its measured options."""
    if len(problem.ways) > 1:
        return _cheapest_way_j(problem, price_w)
    return sum(
        float(_priced_j(problem, front, price_w[problem.front_of == front], None).sum())
        for front in range(len(problem.measured))
    )


def _cheapest_way_j(problem: Problem, price_w: Floats) -> float:
    """The same where all that is done to a microbatch on a stage keeps to one way of cutting it."""
    cost_j = np.zeros((len(problem.ways), int(problem.unit_of.max()) + 1))
    for front in range(len(problem.measured)):
        ops = problem.front_of == front
        for row, way in enumerate(problem.ways):
            np.add.at(cost_j[row], problem.unit_of[ops], _priced_j(problem, front, price_w[ops], way))
    return float(cost_j.min(axis=0).sum())


def _priced_j(problem: Problem, front: int, price_w: Floats, way: int | None) -> Floats:
    """The least priced energy of operations of one front, in one way or in any, for each price."""
    options = problem.measured[front] if way is None else problem.options_in(front, way)
    time_s = np.array([option.time_s for option in options])
    energy_j = np.array([option.energy_j - problem.wait_power_w * option.time_s for option in options])
    return np.asarray((energy_j + price_w[:, None] * time_s).min(axis=1))
