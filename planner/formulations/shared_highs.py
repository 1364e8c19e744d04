"""The relaxed problem with shared clocks in HiGHS: for prices, and for plans.

For prices, by the interior-point method without a crossover. Where operations share a clock, only the sum of their
prices is determined. The simplex method returns a corner of what is left open, with prices heaped on a few
operations, which prove little once a plan may change clocks in between (see `limits.bounds`). Interior-point prices
lie in the middle. They need not be exact: whatever they are, they bound.

For plans, by the simplex method: a corner has few groups between two clocks, and the next problem, with fewer
clocks offered, starts from it.
"""

from dataclasses import dataclass

import highspy
import numpy as np

from energyopt.planner.arrays import Flags, Floats
from energyopt.planner.formulations.highs import SilentHighs
from energyopt.planner.formulations.shared import SharedArrays
from energyopt.planner.limits.bounds import Prices, conserved
from energyopt.schemas.errors import SolverError

_ALWAYS = {"threads": 1, "random_seed": 0}
_INTERIOR = {"solver": "ipm", "run_crossover": "off", "ipm_optimality_tolerance": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedRelaxed:
    """An optimal solution; G groups, C clocks.

    weight_GC: weights over clocks, 0 where none is offered. effective_j: without static energy. prices: conserved.
    """

    weight_GC: Floats  # noqa: N815
    effective_j: float
    prices: Prices


class SharedClockSolver:
    """Solves the problem for one deadline and limit after another; single-threaded, hence repeatable."""

    def __init__(self, arrays: SharedArrays, *, interior: bool) -> None:
        self._arrays = arrays
        self._solver = SilentHighs()
        for name, value in (_ALWAYS | (_INTERIOR if interior else {})).items():
            self._solver.setOptionValue(name, value)
        self._solver.passModel(_model(arrays))

    def offer(self, offered: Flags) -> None:
        """Take all but these clocks [G, C] of those that the arrays have from the groups."""
        has = self._arrays.weight >= 0
        columns = self._arrays.weight[has].astype(np.int32)
        upper = np.where(offered[has], highspy.kHighsInf, 0.0)
        self._solver.changeColsBounds(len(columns), columns, np.zeros(len(columns)), upper)

    def solve(self, deadline_s: float, most_switches: float = np.inf) -> SharedRelaxed | None:
        """Least effective energy by the deadline, with at most so many changes if the arrays have a row for it.

        None where nothing meets the deadline with what is offered.

        Raises:
            SolverError: the solver gave up.
        """
        arrays, solver = self._arrays, self._solver
        solver.changeColBounds(arrays.end, 0.0, deadline_s / arrays.time_scale_s)
        if arrays.limit_row is not None:
            share = min(most_switches / arrays.follow_count, 1.0)
            solver.changeRowBounds(arrays.limit_row, -highspy.kHighsInf, share)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
            text = solver.modelStatusToString(status)
            raise SolverError(f"the solver found no optimum for shared clocks in {deadline_s:g} s: {text}")
        return _relaxed(arrays, solver.getSolution())


def _relaxed(arrays: SharedArrays, solution: highspy.HighsSolution) -> SharedRelaxed:
    columns, dual = np.array(solution.col_value), np.array(solution.row_dual)
    graph = arrays.table.problem.graph
    power_w = arrays.energy_scale_j / arrays.time_scale_s
    sink_flow_w = np.zeros(graph.n_ops)
    sink_flow_w[arrays.sinks] = dual[graph.n_edges : graph.n_edges + len(arrays.sinks)] * power_w
    change = 0.0 if arrays.limit_row is None else -dual[arrays.limit_row] / arrays.follow_count
    return SharedRelaxed(
        weight_GC=np.where(arrays.weight >= 0, columns[arrays.weight], 0.0),
        effective_j=float(arrays.cost @ columns) * arrays.energy_scale_j,
        prices=conserved(graph, dual[: graph.n_edges] * power_w, sink_flow_w, change * arrays.energy_scale_j),
    )


def _model(arrays: SharedArrays) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = arrays.matrix.shape
    model.col_cost_ = arrays.cost
    model.col_lower_ = np.zeros(len(arrays.cost))
    model.col_upper_ = np.full(len(arrays.cost), highspy.kHighsInf)
    model.row_lower_ = arrays.row_lower
    model.row_upper_ = arrays.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = arrays.matrix.indptr
    model.a_matrix_.index_ = arrays.matrix.indices
    model.a_matrix_.value_ = arrays.matrix.data
    return model
