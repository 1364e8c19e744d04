"""Floors under the peak power of every plan, and under the time of every plan that keeps to a cap.

While an operation runs, its stage draws at least what the thriftiest of its options does, and every other stage at
least wait power, or less where some operation of it draws less. And a peak is never below the average: what all
operations need at their least effective energy, spread over the longest iteration that the slowest options give.

Legend: F fronts, S stages.
"""

from typing import TYPE_CHECKING

import numpy as np

from energyopt.planner.problem import Problem
from energyopt.schemas.options import Option

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier


def floor_w(problem: Problem, lasts_s: float = 0.0) -> float:
    """What one GPU of every stage together reach for `lasts_s` on end, whatever their measured options, in W."""
    least_F = np.array([min(map(mean_power_w, options)) for options in problem.measured])
    shortest_F = np.array([min(one.time_s for one in options) for options in problem.measured])
    stage_F = np.array([key.stage for key in sorted({op.key for op in problem.schedule.ops})])
    quiet_S = np.full(problem.schedule.stages, problem.wait_power_w)
    np.minimum.at(quiet_S, stage_F, least_F)
    beyond_w = (least_F - quiet_S[stage_F])[shortest_F >= lasts_s].max(initial=0.0)
    running_w = float(quiet_S.sum() + beyond_w)
    return running_w if lasts_s > 0 else max(running_w, _average_w(problem))


def least_time_s(frontier: "Frontier") -> float | None:
    """An iteration time that no plan under the frontier's cap on peak power goes below; None where none is proven.

    A plan that is faster than the first point costs at least that point's bound on dynamic energy, and its average
    power, that energy / time + wait power of all GPUs, is no more than its peak.
    """
    cap_w, first = frontier.peak_power_cap_w, frontier.points[0]
    waiting_w = frontier.wait_power_w * frontier.gpus
    if cap_w is None or frontier.peak_lasts_s > 0 or cap_w <= waiting_w:
        return None
    least_s = (first.lower_bound_j - waiting_w * first.iteration_time_s) / (cap_w - waiting_w)
    return least_s if least_s > 0 else None


def mean_power_w(option: Option) -> float:
    """The power of an operation, on one GPU."""
    return option.energy_j / option.time_s


def _average_w(problem: Problem) -> float:
    """The least average power of any plan: effective energy over time is least at the one end or the other."""
    times_F2 = np.array(
        [[pick(one.time_s for one in options) for pick in (min, max)] for options in problem.measured]
    )
    effective_F = np.array(
        [
            min(one.energy_j - problem.wait_power_w * one.time_s for one in options)
            for options in problem.measured
        ]
    )
    ends_s = problem.paths.makespans_s(times_F2[problem.front_of]) + problem.fixed_time_s
    least_j = float(effective_F[problem.front_of].sum())
    return problem.static_power_w + float((least_j / ends_s).min())
