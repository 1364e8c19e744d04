"""The relaxed problem as it is written on paper, in cvxpy: the reference that `highs` must agree with.

    min  sum_k slope_k d_k  (+ static power x_end)
    s.t. finish = x + tmin + (sum of the operation's segment lengths d)
         x_head >= finish_tail + lag     for each dependency
         x_end  >= finish_i              for each operation that nothing waits for
         0 <= d <= width,  x >= 0,  x_end <= T

Slow beside `highs`, which builds the same arrays by hand and keeps its basis from deadline to deadline.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.formulations.incidence import (
    Scale,
    base_effective_j,
    incidence,
    per_op,
    scale_of,
    selection,
)
from energyopt.planner.formulations.interface import Relaxed
from energyopt.planner.problem import Problem
from energyopt.schemas.errors import SolverError

_SOLVER = {"solver": cp.HIGHS, "highs_options": {"threads": 1, "random_seed": 0}}


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """The hulls' segments of all operations in a row, S in total."""

    owner: Ints  # [S] the operation that each belongs to
    width_s: Floats  # [S]
    slope_w: Floats  # [S]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """The two problems over the same variables, in scaled units."""

    scale: Scale
    sink_ops: Ints
    deadline: Any
    duration: Any
    end: Any
    saved: Any
    waits: Any
    ends: Any
    within_deadline: Any
    free: Any


class CvxpyRelaxedSolver:
    """Solves the relaxed problem for one deadline after another, each from scratch."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._model = _build(problem)

    def solve(self, deadline_s: float) -> Relaxed:
        """Least effective energy with every operation finished by `deadline_s`."""
        self._model.deadline.value = deadline_s / self._model.scale.time_s
        return self._run(self._model.within_deadline, f"a deadline of {deadline_s:g} s")

    def solve_free(self) -> Relaxed:
        """Least total energy, effective plus static, at whatever makespan that takes."""
        return self._run(self._model.free, "the least total energy")

    def _run(self, program: Any, what: str) -> Relaxed:
        try:
            program.solve(**_SOLVER)
        except cp.SolverError as error:
            raise SolverError(f"the solver failed for {what}: {error}") from error
        if program.status != cp.OPTIMAL:
            raise SolverError(f"the solver found no optimum for {what}: {program.status}")
        return self._relaxed()

    def _relaxed(self) -> Relaxed:
        model, problem = self._model, self._problem
        sink_flow_w = np.zeros(problem.n_ops)
        sink_flow_w[model.sink_ops] = _prices(model.ends, model.scale)
        longest_s = per_op(problem, [float(front.time_s[-1]) for front in problem.fronts])
        return Relaxed(
            duration_s=np.clip(model.duration.value * model.scale.time_s, problem.fastest_s, longest_s),
            edge_flow_w=_prices(model.waits, model.scale),
            sink_flow_w=sink_flow_w,
            makespan_s=float(model.end.value) * model.scale.time_s,
            effective_j=base_effective_j(problem) + float(model.saved.value) * model.scale.energy_j,
        )


def segments_of(problem: Problem) -> Segments:
    """All hull segments; a problem whose operations have one option each gets a single segment of no length."""
    fronts = [problem.fronts[front] for front in problem.front_of]
    owner = np.repeat(np.arange(problem.n_ops), [len(front.hull) - 1 for front in fronts])
    if not len(owner):
        return Segments(owner=np.zeros(1, dtype=np.int64), width_s=np.zeros(1), slope_w=np.zeros(1))
    return Segments(
        owner=owner,
        width_s=np.concatenate([front.segment_width_s for front in fronts]),
        slope_w=np.concatenate([front.segment_slope_w for front in fronts]),
    )


def _build(problem: Problem) -> _Model:
    graph, scale, segments = incidence(problem), scale_of(problem), segments_of(problem)
    start, end = cp.Variable(problem.n_ops, nonneg=True), cp.Variable()
    longer, deadline = cp.Variable(len(segments.owner), nonneg=True), cp.Parameter(nonneg=True)
    duration = problem.fastest_s / scale.time_s + selection(segments.owner, problem.n_ops).T @ longer
    finish = start + duration
    waits = graph.head @ start >= graph.tail @ finish + problem.graph.lag_s / scale.time_s
    ends = end >= graph.sinks @ finish
    shared = [waits, ends, longer <= segments.width_s / scale.time_s]
    saved = (segments.slope_w / scale.power_w) @ longer
    return _Model(
        scale=scale,
        sink_ops=graph.sink_ops,
        deadline=deadline,
        duration=duration,
        end=end,
        saved=saved,
        waits=waits,
        ends=ends,
        within_deadline=cp.Problem(cp.Minimize(saved), [*shared, end <= deadline]),
        free=cp.Problem(cp.Minimize(saved + problem.static_power_w / scale.power_w * end), shared),
    )


def _prices(constraint: Any, scale: Scale) -> Floats:
    """What a second of each constraint is worth, in W; cvxpy's duals of `>=` are at least 0 up to rounding."""
    return np.asarray(np.maximum(constraint.dual_value, 0.0) * scale.power_w)
