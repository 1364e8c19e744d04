"""Even plans as seeds for the search: one option per stage, chunk and kind for all microbatches in the middle.

In the steady state a pipeline moves on by one microbatch per period, and no stage may be busy for longer than that.
Given a period, each stage takes the combination of options for its kinds and chunks that costs least and fits. Only
few periods waste little on every stage at once, and plans for these are hard to reach by small changes. Warm-up and
cool-down are rounded from the relaxed solution whose period is the same.

Legend: n operations in the sweeper's order, C combinations of a stage, P periods, A anchors, W plans.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.rounding import Rounder

_MARGINS = (0.5, 1.0, 2.0)  # microbatches at either end that are not in the middle, in numbers of stages
_DIGITS = 12  # decimals below which two periods waste the same
_MIDDLE = (0.4, 0.6)  # share of the microbatches over which a relaxed solution's period is measured


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageFront:
    """Pareto front of a stage's work for one microbatch: fastest first."""

    time_s: Floats  # [C]
    effective_j: Floats  # [C]
    choices: Choices  # [C, fronts of the stage]
    fronts: list[int]  # indices into Problem.fronts


def seed_plans(problem: Problem, rounder: Rounder, most: int) -> tuple[Choices, Floats]:
    """Plans [n, W] from at most `most` periods, and the makespan of the relaxed solution behind each, [W]."""
    microbatch = np.array([op.microbatch for op in problem.schedule.ops])[rounder.sweeper.order]
    anchor_periods_s = _anchor_periods_s(problem, rounder, microbatch)
    stages = [_stage_front(problem, fronts) for fronts in _fronts_of_stages(problem)]
    periods_s = _thrifty_periods_s(stages, problem.static_power_w, most)
    known = (periods_s >= anchor_periods_s[0]) & (periods_s <= anchor_periods_s[-1])
    makespan_s = np.interp(periods_s[known], anchor_periods_s, rounder.anchor_s)
    even = _even(problem, stages, periods_s[known])[problem.front_of[rounder.sweeper.order]]
    return _with_ends(problem, rounder, microbatch, even, makespan_s)


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
    problem: Problem, rounder: Rounder, microbatch: Ints, even: Choices, makespan_s: Floats
) -> tuple[Choices, Floats]:
    """Even plans in the middle, the rounded relaxed solution of the same period at either end."""
    count, stages = problem.schedule.microbatches, problem.schedule.stages
    none, no_spare_s = np.zeros(len(makespan_s), dtype=np.int64), np.zeros(len(makespan_s))
    ends = rounder.round_relaxed(makespan_s, no_spare_s, none, none, none.astype(np.bool_)).choices
    plans = []
    for margin in _MARGINS:
        middle = (microbatch >= margin * stages) & (microbatch < count - margin * stages)
        plans.append(np.where(middle[:, None], even, ends))
    return np.concatenate(plans, axis=1), np.tile(makespan_s, len(_MARGINS))


def _fronts_of_stages(problem: Problem) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    ops = problem.schedule.ops
    for front in range(len(problem.fronts)):
        stage = ops[int(np.argmax(problem.front_of == front))].stage
        found.setdefault(stage, []).append(front)
    return [found[stage] for stage in sorted(found)]


def _stage_front(problem: Problem, fronts: list[int]) -> StageFront:
    """Add up the fronts of a stage, pruning after each: the Pareto-pruned Minkowski sum."""
    time_s, effective_j, choices = np.zeros(1), np.zeros(1), np.zeros((1, 0), dtype=np.int16)
    for index in fronts:
        front = problem.fronts[index]
        often = np.count_nonzero(problem.front_of == index) / problem.schedule.microbatches
        sums_s = np.add.outer(time_s, front.time_s * often).ravel()
        sums_j = np.add.outer(effective_j, front.effective_j * often).ravel()
        kept = _pareto(sums_s, sums_j)
        before, chosen = np.divmod(kept, len(front.time_s))
        choices = np.column_stack((choices[before], chosen.astype(np.int16)))
        time_s, effective_j = sums_s[kept], sums_j[kept]
    return StageFront(time_s=time_s, effective_j=effective_j, choices=choices, fronts=fronts)


def _pareto(time_s: Floats, energy_j: Floats) -> Ints:
    """Indices of the points that none beats in both, fastest first."""
    ranked = np.lexsort((energy_j, time_s))
    least = np.minimum.accumulate(energy_j[ranked])
    return ranked[np.concatenate(([True], energy_j[ranked][1:] < least[:-1]))]


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
