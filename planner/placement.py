"""Which iteration times the frontier's points get.

Obligatory are the fastest, the max-clock baseline's own, that of least energy and that of the least energy-delay
product. The others gather where the lower-bound curve bends. Each but the first two has a window of iteration times,
in which it ends up where measured options happen to come closest to the bound.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.curve import Curve, bend, best_edp, close_in_on_edp, start_curve
from energyopt.planner.formulations.interface import RelaxedSolver
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.windows import Windows

_REACH = 0.45  # share of the way to the neighbouring points that a point may move
_SUBDIVISIONS = 4  # windows tried for each interval between points


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Deadlines wished for, [P] rising, and which of them are fixed."""

    deadline_s: Floats
    fixed: Flags

    def windows(self) -> Windows:
        """The window of each point."""
        apart_s = _REACH * np.diff(self.deadline_s)
        low_s = self.deadline_s - np.concatenate(([0.0], apart_s))
        high_s = self.deadline_s + np.concatenate((apart_s, [0.0]))
        return Windows(
            low_s=np.where(self.fixed, self.deadline_s, low_s),
            high_s=np.where(self.fixed, self.deadline_s, high_s),
            fixed=self.fixed,
        )

    def grid(self) -> Windows:
        """Small windows that cover everything, ending at the wished deadlines and evenly between them."""
        left, right = self.deadline_s[:-1, None], self.deadline_s[1:, None]
        between = left + (right - left) * (np.arange(_SUBDIVISIONS) / _SUBDIVISIONS)
        high_s = np.unique(np.append(between.ravel(), self.deadline_s[-1]))
        fixed = np.isin(high_s, self.deadline_s[self.fixed])
        low_s = np.where(fixed, high_s, np.concatenate((high_s[:1], high_s[:-1])))
        return Windows(low_s=low_s, high_s=high_s, fixed=fixed)

    def best_in_windows(self, makespan_s: Floats, gap: Floats) -> Ints:
        """For each point the index of the plan with the least gap among those in its window."""
        windows = self.windows()
        chosen = []
        for low_s, high_s in zip(windows.low_s, windows.high_s, strict=True):
            inside = (makespan_s >= low_s) & (makespan_s <= high_s)
            chosen.append(int(np.where(inside, gap, np.inf).argmin()))
        return np.array(chosen)


def place_points(
    problem: Problem, solver: RelaxedSolver, baseline_s: float, count: int
) -> tuple[Curve, Placement]:
    """Trace the lower-bound curve and wish for `count` deadlines on it."""
    curve = start_curve(problem, solver, baseline_s)
    obligatory_s = {point.deadline_s for point in curve.points}
    bend(curve, count)
    wished_s = [point.deadline_s for point in curve.points]
    close_in_on_edp(curve)
    edp_s = best_edp(curve).deadline_s
    if edp_s not in wished_s:
        wished_s = _with(wished_s, edp_s, obligatory_s, count)
    fixed = np.array([one in (wished_s[0], baseline_s) for one in wished_s])
    return curve, Placement(deadline_s=np.array(wished_s), fixed=fixed)


def _with(wished_s: list[float], added_s: float, obligatory_s: set[float], count: int) -> list[float]:
    """Add a deadline; where that makes too many, drop the nearest that may go."""
    free = [one for one in wished_s if one not in obligatory_s]
    if len(wished_s) >= count and free:
        wished_s = [one for one in wished_s if one != min(free, key=lambda other: abs(other - added_s))]
    return sorted([*wished_s, added_s])
