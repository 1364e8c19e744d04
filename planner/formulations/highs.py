"""The relaxed problem in HiGHS, kept warm between deadlines: only the bound of x_end and its cost change."""

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

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
        self._solver = EndSolver(
            _model(self._arrays),
            end=problem.n_ops,
            time_scale_s=self._arrays.time_scale_s,
            energy_scale_j=self._arrays.energy_scale_j,
        )

    def solve(self, deadline_s: float) -> Relaxed:
        """Least effective energy with every operation finished by `deadline_s`."""
        return self._relaxed(self._solver.solve(deadline_s))

    def solve_free(self) -> Relaxed:
        """Least total energy, effective plus static, at whatever makespan that takes."""
        return self._relaxed(self._solver.solve_free(self._problem.static_power_w))

    def _relaxed(self, solution: "Solution") -> Relaxed:
        arrays, n = self._arrays, self._problem.n_ops
        segments = solution.columns[n + 1 :]
        saved_j = float(arrays.cost[n + 1 :] @ segments) * arrays.energy_scale_j
        return Relaxed(
            duration_s=durations_s(self._problem, arrays, solution.columns),
            edge_flow_w=solution.row_price_w[: self._problem.graph.n_edges],
            sink_flow_w=_per_op(solution.row_price_w[self._problem.graph.n_edges :], arrays, n),
            makespan_s=solution.end_s,
            effective_j=arrays.base_effective_j + saved_j,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """An optimum: scaled columns, when the last operation ends, and the prices of the rows, at least 0."""

    columns: Floats
    end_s: float
    row_price_w: Floats


class EndSolver:
    """A model in HiGHS, kept warm between deadlines: only the bound of x_end and its cost change."""

    def __init__(
        self, model: highspy.HighsLp, *, end: int, time_scale_s: float, energy_scale_j: float
    ) -> None:
        """end: the column of x_end; the scales are those that times and energies were divided by."""
        self._end, self._time_scale_s, self._energy_scale_j = end, time_scale_s, energy_scale_j
        self._solver = SilentHighs()
        for name, value in (("threads", 1), ("random_seed", 0)):
            self._solver.setOptionValue(name, value)
        self._solver.passModel(model)

    def solve(self, deadline_s: float) -> Solution:
        """The optimum for a deadline.

        Raises:
            SolverError: there is none.
        """
        self._solver.changeColCost(self._end, 0.0)
        self._solver.changeColBounds(self._end, 0.0, round(deadline_s / self._time_scale_s, 12))
        return self._run(f"a deadline of {deadline_s:g} s")

    def solve_free(self, static_power_w: float) -> Solution:
        """The optimum where time costs static power and there is no deadline."""
        price = round(static_power_w * self._time_scale_s / self._energy_scale_j, 12)
        self._solver.changeColCost(self._end, price)
        self._solver.changeColBounds(self._end, 0.0, highspy.kHighsInf)
        return self._run("the least total energy")

    def _run(self, what: str) -> Solution:
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            text = self._solver.modelStatusToString(status)
            raise SolverError(f"the solver found no optimum for {what}: {text}")
        solution = self._solver.getSolution()
        columns = np.array(solution.col_value)
        price_scale = self._energy_scale_j / self._time_scale_s
        return Solution(
            columns=columns,
            end_s=float(columns[self._end]) * self._time_scale_s,
            row_price_w=np.maximum(np.array(solution.row_dual), 0.0) * price_scale,
        )


def _per_op(sink_flow_w: Floats, arrays: SegmentArrays, n_ops: int) -> Floats:
    flow_w = np.zeros(n_ops)
    flow_w[arrays.sinks] = sink_flow_w
    return flow_w


def _model(arrays: SegmentArrays) -> highspy.HighsLp:
    return row_model(arrays.cost, arrays.upper, arrays.row_lower, arrays.start, arrays.index, arrays.value)


def row_model(
    cost: Floats,
    upper: Floats,
    row_lower: Floats,
    start: NDArray[np.int32],
    index: NDArray[np.int32],
    value: Floats,
) -> highspy.HighsLp:
    """Min cost x  s.t.  A x >= row_lower,  0 <= x <= upper, with A stored by rows."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(cost), len(row_lower)
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, np.zeros(len(cost)), upper
    model.row_lower_, model.row_upper_ = row_lower, np.full(len(row_lower), highspy.kHighsInf)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = start, index, value
    return model
