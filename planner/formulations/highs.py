"""The relaxed problem in HiGHS, kept warm between deadlines: only the bound of x_end and its cost change."""

import highspy
import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.formulations.interface import Relaxed
from energyopt.planner.formulations.segments import SegmentArrays, build_segments, durations_s
from energyopt.planner.problem import Problem
from energyopt.schemas.errors import SolverError


class SilentHighs(highspy.Highs):  # type: ignore[misc]
    """HiGHS without its greeting: the constructor prints it on standard output, before any option can be set."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Turn printing off first; the constructor calls this before it logs anything."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


class HighsRelaxedSolver:
    """Solves the relaxed problem for one deadline after another; single-threaded, hence repeatable."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arrays = build_segments(problem)
        self._end = problem.n_ops
        self._solver = SilentHighs()
        for name, value in (("threads", 1), ("random_seed", 0)):
            self._solver.setOptionValue(name, value)
        self._solver.passModel(_model(self._arrays))

    def solve(self, deadline_s: float) -> Relaxed:
        """Least effective energy with every operation finished by `deadline_s`."""
        self._solver.changeColCost(self._end, 0.0)
        self._solver.changeColBounds(self._end, 0.0, round(deadline_s / self._arrays.time_scale_s, 12))
        return self._run(f"a deadline of {deadline_s:g} s")

    def solve_free(self) -> Relaxed:
        """Least total energy, effective plus static, at whatever makespan that takes."""
        arrays = self._arrays
        price = round(self._problem.static_power_w * arrays.time_scale_s / arrays.energy_scale_j, 12)
        self._solver.changeColCost(self._end, price)
        self._solver.changeColBounds(self._end, 0.0, highspy.kHighsInf)
        return self._run("the least total energy")

    def _run(self, what: str) -> Relaxed:
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            text = self._solver.modelStatusToString(status)
            raise SolverError(f"the solver found no optimum for {what}: {text}")
        return self._relaxed(self._solver.getSolution())

    def _relaxed(self, solution: highspy.HighsSolution) -> Relaxed:
        arrays = self._arrays
        columns = np.array(solution.col_value)
        price_scale = arrays.energy_scale_j / arrays.time_scale_s
        flow_w = np.maximum(np.array(solution.row_dual), 0.0) * price_scale
        segments = columns[self._end + 1 :]
        saved_j = float(arrays.cost[self._end + 1 :] @ segments) * arrays.energy_scale_j
        return Relaxed(
            duration_s=durations_s(self._problem, arrays, columns),
            edge_flow_w=flow_w[: self._problem.graph.n_edges],
            sink_flow_w=_per_op(flow_w[self._problem.graph.n_edges :], arrays, self._problem.n_ops),
            makespan_s=float(columns[self._end]) * arrays.time_scale_s,
            effective_j=arrays.base_effective_j + saved_j,
        )


def _per_op(sink_flow_w: Floats, arrays: SegmentArrays, n_ops: int) -> Floats:
    flow_w = np.zeros(n_ops)
    flow_w[arrays.sinks] = sink_flow_w
    return flow_w


def _model(arrays: SegmentArrays) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_col_ = len(arrays.cost)
    model.num_row_ = len(arrays.row_lower)
    model.col_cost_ = arrays.cost
    model.col_lower_ = np.zeros(len(arrays.cost))
    model.col_upper_ = arrays.upper
    model.row_lower_ = arrays.row_lower
    model.row_upper_ = np.full(len(arrays.row_lower), highspy.kHighsInf)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = arrays.start
    model.a_matrix_.index_ = arrays.index
    model.a_matrix_.value_ = arrays.value
    return model
