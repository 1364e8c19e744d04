"""Even plans: one option per stage, chunk and kind for all microbatches, as seeds for the search.

In the steady state a pipeline moves on by one microbatch per period, and no stage may be busy for longer than that.
Given a period, each stage takes the combination of options for its kinds and chunks that costs least and fits. Only
few periods waste little on every stage at once; the plans for these are hard to reach by small changes.

Legend: n operations in the sweeper's order, S stages, C combinations of a stage, P periods.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.options import lower_hull
from energyopt.planner.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageFront:
    """Pareto front of a stage's work for one microbatch: fastest first."""

    time_s: Floats  # [C]
    effective_j: Floats  # [C]
    choices: Choices  # [C, fronts of the stage]
    fronts: list[int]  # indices into Problem.fronts


def even_plans(problem: Problem, order: Ints, most: int) -> tuple[Floats, Choices]:
    """The at most `most` periods [P] that waste least, shortest first, and their plans [n, P]."""
    stages = [_stage_front(problem, fronts) for fronts in _fronts_of_stages(problem)]
    periods_s = _thrifty_periods_s(stages, problem.static_power_w, most)
    by_front = np.zeros((len(problem.fronts), len(periods_s)), dtype=np.int16)
    for stage in stages:
        fitting = np.searchsorted(stage.time_s, periods_s, side="right") - 1
        by_front[stage.fronts] = stage.choices[fitting].T
    plans: Choices = by_front[problem.front_of[order]]
    return periods_s, plans


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
    excess = energy_j / np.interp(periods_s, periods_s[corners], energy_j[corners])
    return np.sort(periods_s[np.argsort(excess, kind="stable")[:most]])
