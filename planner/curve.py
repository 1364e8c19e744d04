"""The lower-bound curve: least relaxed energy as a function of the makespan, convex and piecewise linear.

Traced by the sandwich rule: solved deadlines give tangents, and the next deadline is where two neighbouring tangents
meet furthest below their chord, so that solutions gather where the curve bends.
"""

from bisect import insort
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.certificate import BoundLine, certify
from energyopt.planner.formulations.interface import Relaxed, RelaxedSolver
from energyopt.planner.problem import Problem

_NOTHING_LEFT = 1e-9  # relative error below which a stretch of the curve counts as known
_SAME_TIME = 1e-9  # relative distance below which two deadlines are one
_EDP_SOLVES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurvePoint:
    """One solved deadline; energies in joules of one GPU per stage, static energy included."""

    deadline_s: float
    bound_j: float
    slope_w: float
    line: BoundLine
    relaxed: Relaxed


class Curve:
    """Solved deadlines, shortest first, and the certified bound that their prices give at any makespan."""

    def __init__(self, problem: Problem, solver: RelaxedSolver) -> None:
        self._problem = problem
        self._solver = solver
        self.points: list[CurvePoint] = []

    def solve(self, deadline_s: float) -> CurvePoint:
        """Solve one deadline, unless it is already there."""
        for point in self.points:
            if abs(point.deadline_s - deadline_s) <= _SAME_TIME * deadline_s:
                return point
        return self._add(self._solver.solve(deadline_s), deadline_s)

    def solve_free(self) -> CurvePoint:
        """Solve for the least total energy."""
        relaxed = self._solver.solve_free()
        return self._add(relaxed, relaxed.makespan_s)

    def bound_j(self, makespan_s: float) -> float:
        """The best certified lower bound on the energy of a plan of this makespan, static energy included."""
        dynamic_j = max(point.line.at(makespan_s) for point in self.points)
        return dynamic_j + self._problem.static_power_w * makespan_s

    def upper_j(self, makespan_s: Floats) -> Floats:
        """The chords of the curve, at or above the true one, for makespans between the first and the last."""
        deadlines = [point.deadline_s for point in self.points]
        return np.interp(makespan_s, deadlines, [point.bound_j for point in self.points])

    def _add(self, relaxed: Relaxed, deadline_s: float) -> CurvePoint:
        line = certify(self._problem, relaxed.edge_flow_w, relaxed.sink_flow_w)
        static_w = self._problem.static_power_w
        point = CurvePoint(
            deadline_s=deadline_s,
            bound_j=line.at(deadline_s) + static_w * deadline_s,
            slope_w=line.slope_w + static_w,
            line=line,
            relaxed=relaxed,
        )
        insort(self.points, point, key=lambda one: one.deadline_s)
        return point


def start_curve(problem: Problem, solver: RelaxedSolver, baseline_s: float) -> Curve:
    """Solve the ends, the fastest makespan and that of least energy, and `baseline_s` where it lies between."""
    curve = Curve(problem, solver)
    free = curve.solve_free()
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    if free.deadline_s > fastest_s * (1 + _SAME_TIME):
        curve.solve(fastest_s)
        if fastest_s < baseline_s < free.deadline_s:
            curve.solve(baseline_s)
    return curve


def bend(curve: Curve, count: int) -> None:
    """Solve further deadlines where the curve bends most, until there are `count` or nothing is left to learn."""
    while 1 < len(curve.points) < count:
        error, deadline_s = max((_error(left, right) for left, right in _pairs(curve)), key=lambda one: one[0])
        if error < _NOTHING_LEFT:
            return
        curve.solve(deadline_s)


def best_edp(curve: Curve) -> CurvePoint:
    """The solved deadline of least energy-delay product."""
    return min(curve.points, key=lambda point: point.bound_j * point.deadline_s)


def close_in_on_edp(curve: Curve) -> None:
    """Solve where the energy-delay product might be less still: on a falling straight piece it is least at an end."""
    for _ in range(_EDP_SOLVES if len(curve.points) > 1 else 0):
        best = best_edp(curve)
        least = best.bound_j * best.deadline_s
        corners = [_corner(left, right) for left, right in _pairs(curve) if best in (left, right)]
        product, deadline_s = min(((time_s * energy_j, time_s) for time_s, energy_j in corners))
        if product > least * (1 - 1e-6):
            return
        before = len(curve.points)
        curve.solve(deadline_s)
        if len(curve.points) == before:
            return


def _pairs(curve: Curve) -> list[tuple[CurvePoint, CurvePoint]]:
    return list(zip(curve.points, curve.points[1:], strict=False))


def _corner(left: CurvePoint, right: CurvePoint) -> tuple[float, float]:
    """Where the tangents of two neighbours meet, (s, J); kept inside the interval."""
    bend_w = right.slope_w - left.slope_w
    if bend_w <= 0:
        return left.deadline_s, left.bound_j
    width_s = right.deadline_s - left.deadline_s
    drop_j = left.bound_j + left.slope_w * width_s - right.bound_j
    time_s = right.deadline_s + drop_j / bend_w
    time_s = min(max(time_s, left.deadline_s), right.deadline_s)
    return time_s, left.bound_j + left.slope_w * (time_s - left.deadline_s)


def _error(left: CurvePoint, right: CurvePoint) -> tuple[float, float]:
    """The largest relative distance of the chord above the tangents, and the deadline where it lies."""
    time_s, tangent_j = _corner(left, right)
    share = (time_s - left.deadline_s) / (right.deadline_s - left.deadline_s)
    chord_j = left.bound_j + share * (right.bound_j - left.bound_j)
    near_end = min(time_s - left.deadline_s, right.deadline_s - time_s) <= _SAME_TIME * time_s
    return (0.0 if near_end else (chord_j - tangent_j) / chord_j), time_s
