"""What an iteration costs without a plan: every operation at its highest clock, or the whole job at one clock."""

from collections.abc import Sequence

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.problem import Problem
from energyopt.planner.simulation import iteration_energy_j, simulate
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline


def max_clock_baseline(problem: Problem, pipeline: Pipeline, gpus_per_stage: int) -> Baseline:
    """Every operation at the highest clock that the profile has for it, as the simulator runs it."""
    time_s = max_clock_times_s(problem).tolist()
    energy_j = np.array([top.energy_j for top in _tops(problem)])[problem.front_of].tolist()
    timeline = simulate(problem.schedule, time_s, pipeline.p2p_time_s, pipeline.fixed_time_s)
    one_gpu_j = iteration_energy_j(timeline, time_s, energy_j, problem.wait_power_w, problem.schedule.stages)
    return Baseline(iteration_time_s=timeline.iteration_time_s, energy_j=one_gpu_j * gpus_per_stage)


def max_clock_times_s(problem: Problem) -> Floats:
    """The duration of each operation at its highest clock, [n]."""
    return np.array([top.time_s for top in _tops(problem)])[problem.front_of]


def single_clock_baselines(problem: Problem, gpus_per_stage: int) -> tuple[Baseline, ...]:
    """The whole job at one clock, for each clock that the profile has for every operation, lowest first."""
    by_clock = [unplanned(options) for options in problem.measured]
    clocks = sorted(set.intersection(*(set(options) for options in by_clock)))
    time_FC = np.array([[options[clock].time_s for clock in clocks] for options in by_clock])
    effective_FC = np.array(
        [[_effective_j(options[clock], problem.wait_power_w) for clock in clocks] for options in by_clock]
    )
    often_F = np.bincount(problem.front_of, minlength=len(by_clock))
    total_s = problem.paths.makespans_s(time_FC[problem.front_of]) + problem.fixed_time_s
    energy_j = (often_F @ effective_FC + problem.static_power_w * total_s) * gpus_per_stage
    return tuple(
        Baseline(sm_clock_mhz=clock, iteration_time_s=time_s, energy_j=one_j)
        for clock, time_s, one_j in zip(clocks, total_s.tolist(), energy_j.tolist(), strict=True)
    )


def unplanned(options: Sequence[Option]) -> dict[int, Option]:
    """What runs without a plan, by clock: one kernel after the other on the whole microbatch, where that is known.

    Else what comes closest: one after the other in nanobatches, or the fastest.
    """
    found: dict[int, Option] = {}
    for option in sorted(options, key=_likelihood):
        found.setdefault(option.sm_clock_mhz, option)
    return found


def _likelihood(option: Option) -> tuple[bool, bool, float]:
    return not option.is_plain, bool(option.partitions), option.time_s


def _tops(problem: Problem) -> list[Option]:
    """What each front runs at its highest clock."""
    return [found[max(found)] for found in map(unplanned, problem.measured)]


def _effective_j(option: Option, wait_power_w: float) -> float:
    return option.energy_j - wait_power_w * option.time_s
