"""Which iteration times the frontier's points get.

Obligatory are the fastest, the max-clock baseline's own, that of least energy and that of the least energy-delay
product. Of the other plans found, those are taken that bring the frontier closest to the bound: each in turn cuts
off the largest area between the frontier and the chords of the points chosen so far, less what it lies above the
bound itself. So points gather where the frontier bends, and where measured options happen to waste little.
"""

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.curve import Curve, best_edp
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.pool import Pool
from energyopt.planner.realisation.rounding import BEYOND
from energyopt.planner.realisation.windows import Judge, Windows

_REACH = 0.45  # share of the way to the neighbouring points that a point may still move
_SAME_TIME = 1e-9  # relative distance below which two deadlines are one
_WASTE = 0.5  # what a plan's distance to the bound counts against what it adds


def grid_windows(
    problem: Problem, curve: Curve, baseline_s: float, subdivisions: int, reach_s: float = 0.0
) -> Windows:
    """Small windows that cover the curve: `subdivisions` between neighbouring solved deadlines.

    They go on beyond the last solution, for the plan of least energy may take longer than the relaxed one; up to
    `reach_s` at least, where plans are not free to take what they would without limits. The
    fastest makespan and the baseline's get windows of their own, with fixed deadlines.
    """
    solved_s = np.array([point.deadline_s for point in curve.points])
    reach_s = max(reach_s, _reach_s(problem, curve))
    inner_s = solved_s if reach_s > solved_s[-1] * (1 + _SAME_TIME) else solved_s[:-1]
    ends_s = np.append(inner_s if len(inner_s) else solved_s, reach_s * (1 + BEYOND))
    share = np.arange(subdivisions) / subdivisions
    between_s = ends_s[:-1, None] + np.diff(ends_s)[:, None] * share
    high_s = np.unique(np.append(between_s.ravel(), ends_s[-1]))
    high_s = np.where(np.abs(high_s - baseline_s) <= _SAME_TIME * baseline_s, baseline_s, high_s)
    fixed = (high_s == solved_s[0]) | ((high_s == baseline_s) & (baseline_s <= solved_s[-1]))
    low_s = np.concatenate((high_s[:1], high_s[:-1])) * (1 - BEYOND)
    return Windows(
        low_s=np.where(fixed, high_s, low_s), high_s=high_s, fixed=fixed, cheapest=np.zeros_like(fixed)
    )


def choose_plans(pool: Pool, judge: Judge, curve: Curve, count: int) -> Ints:
    """Indices of the plans that become the frontier's points, at most `count`, fastest first.

    The last one is that of least energy; slower ones are dominated.
    """
    found = np.flatnonzero(np.isfinite(pool.gap))
    time_s = np.where(pool.windows.fixed, pool.windows.high_s, pool.makespan_s)[found]
    energy_j = judge.total_j(pool.effective_j[found], time_s)
    order = np.argsort(time_s, kind="stable")
    order = order[: int(energy_j[order].argmin()) + 1]
    found, time_s, energy_j = found[order], time_s[order], energy_j[order]
    waste_j = energy_j - energy_j / (1 + pool.gap[found])
    chosen = _obligatory(pool.windows.fixed[found], time_s, energy_j, best_edp(curve).deadline_s)
    while len(chosen) < min(count, len(found)):
        worth = _worth(chosen, time_s, energy_j, waste_j)
        chosen = sorted([*chosen, int(worth.argmax())])
    return found[chosen]


def point_windows(pool: Pool, chosen: Ints) -> Windows:
    """The windows in which the chosen plans may still move."""
    fixed = pool.windows.fixed[chosen]
    time_s = np.where(fixed, pool.windows.high_s[chosen], pool.makespan_s[chosen])
    apart_s = _REACH * np.diff(time_s)
    return Windows(
        low_s=np.where(fixed, time_s, time_s - np.concatenate(([0.0], apart_s))),
        high_s=np.where(fixed, time_s, time_s + np.concatenate((apart_s, [BEYOND * time_s[-1]]))),
        fixed=fixed,
        cheapest=~fixed & (np.arange(len(fixed)) == len(fixed) - 1),
    )


def _reach_s(problem: Problem, curve: Curve) -> float:
    """The makespan from which on waiting alone makes every plan dearer than one that is easily found.

    That one is the last relaxed solution with each duration rounded up to a measured option.
    """
    last = curve.points[-1]
    slowest_s, rounded_s, rounded_j, least_j = (np.empty(problem.n_ops) for _ in range(4))
    for index, front in enumerate(problem.fronts):
        ops = problem.front_of == index
        choices = np.searchsorted(front.time_s, last.relaxed.duration_s[ops] * (1 - _SAME_TIME))
        rounded_s[ops], rounded_j[ops] = front.time_s[choices], front.effective_j[choices]
        slowest_s[ops], least_j[ops] = front.time_s[-1], front.effective_j[-1]
    reach_s = problem.paths.makespan_s(slowest_s)
    if problem.static_power_w > 0:
        excess_j = float((rounded_j - least_j).sum())
        reach_s = min(reach_s, problem.paths.makespan_s(rounded_s) + excess_j / problem.static_power_w)
    return max(reach_s, last.deadline_s)


def _obligatory(fixed: Flags, time_s: Floats, energy_j: Floats, edp_s: float) -> list[int]:
    """Fixed deadlines, the least energy, and the plan of least energy-delay product near the curve's."""
    edp = np.where(np.abs(time_s - edp_s) <= 0.05 * edp_s, energy_j * time_s, np.inf)
    return sorted({*np.flatnonzero(fixed).tolist(), int(energy_j.argmin()), int(edp.argmin())})


def _worth(chosen: list[int], time_s: Floats, energy_j: Floats, waste_j: Floats) -> Floats:
    """What each plan adds to the chosen ones; minus infinity for these themselves."""
    chord_j = np.interp(time_s, time_s[chosen], energy_j[chosen])
    gain_j = chord_j - energy_j - _WASTE * waste_j
    right = np.clip(np.searchsorted(chosen, np.arange(len(time_s))), 1, max(len(chosen) - 1, 1))
    right = np.minimum(right, len(chosen) - 1)
    ends_s = time_s[chosen]
    left_s, right_s = ends_s[np.maximum(right - 1, 0)], ends_s[right]
    nearest_s = np.minimum(time_s - left_s, right_s - time_s)
    positive = gain_j > 0
    worth = np.where(positive, gain_j * (right_s - left_s), gain_j / np.maximum(nearest_s, 1e-9))
    worth[chosen] = -np.inf
    return worth
