"""Even plans as seeds for the search: one option per stage, chunk and kind for all microbatches in the middle.

In the steady state a pipeline moves on by one microbatch per period, and no stage may be busy for longer than that.
Given a period, each stage takes the combination of options for its kinds and chunks that costs least and fits. Only
few periods waste little on every stage at once, and plans for these are hard to reach by small changes. Warm-up and
cool-down are rounded from the relaxed solution whose period is the same.

Legend: n operations in the sweeper's order, F fronts, P periods, A anchors, W plans.
"""

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.rounding import Rounder
from energyopt.planner.realisation.stage_fronts import StageFront, stage_fronts
from energyopt.planner.realisation.weaving import woven

_MARGINS = (0.5, 1.0, 2.0)  # microbatches at either end that are not in the middle, in numbers of stages
_DIGITS = 12  # decimals below which two periods waste the same
_MIDDLE = (0.4, 0.6)  # share of the microbatches over which a relaxed solution's period is measured


def seed_plans(
    problem: Problem, rounder: Rounder, most: int, *, weave: bool = False
) -> tuple[Choices, Floats]:
    """Plans [n, W] from at most `most` periods, and the makespan of the relaxed solution behind each, [W].

    weave: woven plans too, for the periods of the relaxed solutions.
    """
    order = rounder.sweeper.order
    microbatch = np.array([op.microbatch for op in problem.schedule.ops])[order]
    anchor_periods_s = _anchor_periods_s(problem, rounder, microbatch)
    stages = stage_fronts(problem)
    periods_s = _thrifty_periods_s(stages, problem.static_power_w, most)
    known = (periods_s >= anchor_periods_s[0]) & (periods_s <= anchor_periods_s[-1])
    makespan_s = np.interp(periods_s[known], anchor_periods_s, rounder.anchor_s)
    middles = _even(problem, stages, periods_s[known])[problem.front_of[order]]
    if weave:
        middles = np.concatenate((middles, woven(problem, order, stages, anchor_periods_s)), axis=1)
        makespan_s = np.concatenate((makespan_s, rounder.anchor_s))
    return _with_ends(problem, rounder, microbatch, middles, makespan_s)


def _anchor_periods_s(problem: Problem, rounder: Rounder, microbatch: Ints) -> Floats:
    """The time that each relaxed solution takes per microbatch in the middle, on its busiest stage, [A]."""
    count = problem.schedule.microbatches
    first = min(int(count * _MIDDLE[0]), count - 1)
    last = max(int(count * _MIDDLE[1]), first + 1)
    middle = (microbatch >= first) & (microbatch < last)
    stage = np.array([op.stage for op in problem.schedule.ops])[rounder.sweeper.order]
    busy_s = [
        rounder.relaxed_s[middle & (stage == one)].sum(axis=0) for one in range(problem.schedule.stages)
    ]
    periods_s = np.max(busy_s, axis=0) / (last - first)
    return np.asarray(np.maximum.accumulate(periods_s))


def _even(problem: Problem, stages: list[StageFront], periods_s: Floats) -> Choices:
    """The option of each front for each period, [F, P]."""
    chosen = np.zeros((len(problem.fronts), len(periods_s)), dtype=np.int16)
    for stage in stages:
        fitting = np.searchsorted(stage.time_s, periods_s, side="right") - 1
        chosen[stage.fronts] = stage.choices[fitting].T
    return chosen


def _with_ends(
    problem: Problem, rounder: Rounder, microbatch: Ints, middles: Choices, makespan_s: Floats
) -> tuple[Choices, Floats]:
    """Even or woven plans in the middle, the rounded relaxed solution of the same period at either end."""
    count, stages = problem.schedule.microbatches, problem.schedule.stages
    none, no_spare_s = np.zeros(len(makespan_s), dtype=np.int64), np.zeros(len(makespan_s))
    ends = rounder.round_relaxed(makespan_s, no_spare_s, none, none, none.astype(np.bool_)).choices
    plans = []
    for margin in _MARGINS:
        middle = (microbatch >= margin * stages) & (microbatch < count - margin * stages)
        plans.append(np.where(middle[:, None], middles, ends))
    return np.concatenate(plans, axis=1), np.tile(makespan_s, len(_MARGINS))


def _thrifty_periods_s(stages: list[StageFront], static_w: float, most: int) -> Floats:
    """The periods whose energy lies least above the lower convex hull over all periods."""
    periods_s = np.unique(np.concatenate([stage.time_s for stage in stages]))
    periods_s = periods_s[periods_s >= max(stage.time_s[0] for stage in stages)]
    energy_j = static_w * periods_s
    for stage in stages:
        energy_j += stage.effective_j[np.searchsorted(stage.time_s, periods_s, side="right") - 1]
    end = int(energy_j.argmin()) + 1
    periods_s, energy_j = periods_s[:end], energy_j[:end]
    corners = lower_hull(periods_s.tolist(), energy_j.tolist())
    excess = np.round(energy_j / np.interp(periods_s, periods_s[corners], energy_j[corners]), _DIGITS)
    return np.sort(periods_s[np.argsort(excess, kind="stable")[:most]])
