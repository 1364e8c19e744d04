"""What a stage's work for one microbatch can cost: all combinations of options for its kinds and chunks.

Legend: C combinations of a stage.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageFront:
    """Pareto front of a stage's work for one microbatch: fastest first."""

    time_s: Floats  # [C]
    effective_j: Floats  # [C]
    choices: Choices  # [C, fronts of the stage]
    fronts: list[int]  # indices into Problem.fronts


def stage_fronts(problem: Problem) -> list[StageFront]:
    """The front of every stage."""
    return [_stage_front(problem, fronts) for fronts in _fronts_of_stages(problem)]


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
