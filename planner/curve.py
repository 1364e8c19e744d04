"""The lower-bound curve: least relaxed energy as a function of the makespan, convex and piecewise linear.

Solved deadlines give tangents. Where two neighbouring tangents meet far below their chord the curve bends, or
is not known yet; that is where the next deadline goes (the sandwich rule).
"""

from bisect import insort
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.certificate import BoundLine, certify
from energyopt.planner.formulations.interface import Relaxed, RelaxedSolver
from energyopt.planner.problem import Problem

_NOTHING_LEFT = 1e-9  # relative error below which a stretch of the curve counts as known
_SAME_TIME = 1e-9  # relative distance below which two deadlines are one
_EVEN = 0.6  # share of the deadlines that are spaced evenly
_EDP_SOLVES = 4
_MANY = 4  # deadlines that are worth a second solver
_SAME_EDP = 1e-6  # relative improvement of the energy-delay product that is not worth a solution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurvePoint:
    """One solved deadline; energies in joules of one GPU per stage, static energy included."""

    deadline_s: float
    bound_j: float
    slope_w: float
    line: BoundLine
    relaxed: Relaxed


class Curve:
    """Solved deadlines, shortest first, and the certified bound that their prices give at any makespan.

    Deadlines that are asked for together are solved in the order in which they lie, so that each solution
    starts from a near one: a whole pass over the curve costs little more than a few solutions far apart.
    """

    def __init__(self, problem: Problem, solver: RelaxedSolver, helper: RelaxedSolver | None = None) -> None:
        """helper: a second solver, which takes half of many deadlines, side by side with the first."""
        self._problem = problem
        self._solver = solver
        self._helper = helper
        self._last_s = 0.0
        self.points: list[CurvePoint] = []

    def solve(self, deadlines_s: Iterable[float]) -> None:
        """Solve deadlines, except those that are there already."""
        wished_s = sorted(deadlines_s)
        if wished_s and abs(wished_s[-1] - self._last_s) < abs(wished_s[0] - self._last_s):
            wished_s.reverse()
        if self._helper is not None and len(wished_s) >= _MANY:
            self._solve_side_by_side(self._helper, wished_s)
            return
        for deadline_s in wished_s:
            if not self._is_known(deadline_s):
                self._add(self._solver.solve(deadline_s), deadline_s)

    def _solve_side_by_side(self, helper: RelaxedSolver, wished_s: list[float]) -> None:
        open_s = [deadline_s for deadline_s in wished_s if not self._is_known(deadline_s)]
        half = (len(open_s) + 1) // 2
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(lambda: [helper.solve(deadline_s) for deadline_s in open_s[half:]])
            found = [self._solver.solve(deadline_s) for deadline_s in open_s[:half]]
            found += beside.result()
        for deadline_s, relaxed in zip(open_s, found, strict=True):
            if not self._is_known(deadline_s):
                self._add(relaxed, deadline_s)
        if half:
            self._last_s = open_s[half - 1]

    def _is_known(self, deadline_s: float) -> bool:
        return any(abs(point.deadline_s - deadline_s) <= _SAME_TIME * deadline_s for point in self.points)

    def solve_free(self) -> None:
        """Solve for the least total energy; its deadline is never below the fastest makespan by rounding."""
        relaxed = self._solver.solve_free()
        fastest_s = self._problem.paths.makespan_s(self._problem.fastest_s)
        is_fastest = relaxed.makespan_s <= fastest_s * (1 + _SAME_TIME)
        self._add(relaxed, fastest_s if is_fastest else relaxed.makespan_s)

    def bound_j(self, makespan_s: float) -> float:
        """The best certified lower bound on the energy of a plan of this makespan, static energy included."""
        dynamic_j = max(point.line.at(makespan_s) for point in self.points)
        return dynamic_j + self._problem.static_power_w * makespan_s

    def slope_w(self, makespan_s: float) -> float:
        """The slope of that bound."""
        best = max(self.points, key=lambda point: point.line.at(makespan_s))
        return best.slope_w

    def solve_unknown(self, deadlines_s: Iterable[float], error: float) -> None:
        """Solve those deadlines at which the bound may be too low by more than a relative error.

        Beyond the last one that is solved nothing is known of that.
        """
        deadlines = np.array(sorted(deadlines_s))
        known_j = np.array([self.bound_j(deadline_s) for deadline_s in deadlines.tolist()])
        unknown = self.upper_j(deadlines) > known_j * (1 + error)
        unknown |= deadlines > self.points[-1].deadline_s * (1 + _SAME_TIME)
        self.solve(deadlines[unknown].tolist())

    def upper_j(self, makespan_s: Floats) -> Floats:
        """The chords of the curve, at or above the true one, for makespans between the first and the last."""
        deadlines = [point.deadline_s for point in self.points]
        return np.interp(makespan_s, deadlines, [point.bound_j for point in self.points])

    def _add(self, relaxed: Relaxed, deadline_s: float) -> None:
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
        self._last_s = deadline_s


def trace_curve(
    problem: Problem,
    solver: RelaxedSolver,
    baseline_s: float,
    count: int,
    helper: RelaxedSolver | None = None,
) -> Curve:
    """Solve `count` deadlines or a few more: evenly spaced ones first, then where the curve bends most.

    Among them are the fastest makespan, that of least energy, `baseline_s` where it lies between, and that of the
    least energy-delay product.
    """
    curve = Curve(problem, solver, helper)
    curve.solve_free()
    last_s, first_s = curve.points[0].deadline_s, problem.paths.makespan_s(problem.fastest_s)
    if last_s <= first_s * (1 + _SAME_TIME):
        return curve
    even_s = np.linspace(first_s, last_s, max(int(count * _EVEN), 2)).tolist()
    curve.solve([*even_s[:-1], *([baseline_s] if first_s < baseline_s < last_s else [])])
    _bend(curve, count)
    _close_in_on_edp(curve)
    return curve


def _bend(curve: Curve, count: int) -> None:
    """Solve further deadlines in the intervals where the curve is known least."""
    errors = [(error, at_s) for error, at_s in map(_error, *_neighbours(curve)) if error >= _NOTHING_LEFT]
    errors.sort(reverse=True)
    curve.solve(at_s for _, at_s in errors[: max(count - len(curve.points), 0)])


def _close_in_on_edp(curve: Curve) -> None:
    """Solve where the energy-delay product might be less still.

    Energy falls along a straight piece of the curve, so the product is least at one of its ends.
    """
    for _ in range(_EDP_SOLVES if len(curve.points) > 1 else 0):
        best = best_edp(curve)
        least = best.bound_j * best.deadline_s
        corners = [_corner(*pair) for pair in zip(*_neighbours(curve), strict=True) if best in pair]
        product, deadline_s = min((time_s * energy_j, time_s) for time_s, energy_j in corners)
        before = len(curve.points)
        if product > least * (1 - _SAME_EDP):
            return
        curve.solve([deadline_s])
        if len(curve.points) == before:
            return


def best_edp(curve: Curve) -> CurvePoint:
    """The solved deadline of least energy-delay product."""
    return min(curve.points, key=lambda point: point.bound_j * point.deadline_s)


def _neighbours(curve: Curve) -> tuple[list[CurvePoint], list[CurvePoint]]:
    """Left and right ends of the intervals between solved deadlines."""
    return curve.points[:-1], curve.points[1:]


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
