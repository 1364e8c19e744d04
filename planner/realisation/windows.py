"""Windows of iteration time, and how good a plan is for the window that it falls into.

Legend: D windows, rising; W plans.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.curve import Curve

_DIGITS = 12  # decimals of a gap


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Iteration times between which the plans of D frontier points may end, [D] each.

    A window with `fixed` set has one deadline, `high_s`: its plans are judged as if they ended just there. One with
    `cheapest` set is for the least energy at whatever time: its plans are judged against the least bound of all.
    """

    low_s: Floats
    high_s: Floats
    fixed: Flags
    cheapest: Flags


class Judge:
    """Measures plans by their gap: energy / bound - 1, with the bound at the makespan of each plan."""

    def __init__(self, curve: Curve, static_w: float) -> None:
        self._curve = curve
        self._static_w = static_w
        self._least_j = min(point.bound_j for point in curve.points)
        self._intercept_j = np.array([point.line.intercept_j for point in curve.points])
        self._slope_w = np.array([point.line.slope_w for point in curve.points]) + static_w

    def gap(self, windows: Windows, window: Ints, effective_j: Floats, makespan_s: Floats) -> Floats:
        """The gaps of plans [W] in their windows [W]; infinite where a plan ends outside its window.

        They are rounded, so that plans that cost the same tie in whatever order their energies were added.
        """
        time_s = np.where(windows.fixed[window], windows.high_s[window], makespan_s)
        bound_j = np.where(windows.cheapest[window], self._least_j, self.estimate_j(time_s))
        gap = np.round(self.total_j(effective_j, time_s) / bound_j - 1, _DIGITS)
        inside = (makespan_s <= windows.high_s[window]) & (time_s >= windows.low_s[window])
        return np.where(inside, gap, np.inf)

    def total_j(self, effective_j: Floats, makespan_s: Floats) -> Floats:
        """Energy of plans with static energy, [W]."""
        return effective_j + self._static_w * makespan_s

    def estimate_j(self, makespan_s: Floats) -> Floats:
        """The lower-bound curve [W], halfway between its certified tangents and its chords.

        Fair for comparing plans of different makespan before the bound at each is solved for.
        """
        tangents_j = (self._intercept_j[:, None] + self._slope_w[:, None] * makespan_s).max(axis=0)
        return np.asarray((tangents_j + self._curve.upper_j(makespan_s)) / 2)
