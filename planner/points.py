"""From plans to frontier points, whose every number is recomputed independently of the solver."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from energyopt.planner.power.over_time import loads_of
from energyopt.planner.problem import Problem
from energyopt.planner.savings import Savings
from energyopt.planner.simulation import Timeline, iteration_energy_j, simulate_plans
from energyopt.schemas.errors import SolverError
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.ops import Schedule
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline

_AGREEMENT = 1e-9  # relative difference between the solver's and the simulator's numbers that is rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperPlan:
    """The option of each operation, its index among those of the operation's key, and the bound on such plans."""

    options: list[Option]
    choices: tuple[int, ...]
    makespan_s: float
    bound_j: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointMaker:
    """Makes frontier points of plans for one job.

    slope_w: the bound's slope at a makespan, of one GPU per stage. peak_lasts_s: how long power has to stay high to
    be a peak, see `PowerOverTime.peak_w`.
    """

    problem: Problem
    pipeline: Pipeline
    gpus_per_stage: int
    savings: Savings
    slope_w: Callable[[float], float]
    peak_lasts_s: float = 0.0

    def points(self, plans: Sequence[PaperPlan]) -> list[FrontierPoint]:
        """Run plans through the simulator, all at once, and put the certified bound beside each.

        Raises:
            SolverError: simulator and solver disagree, or a plan costs less than its bound: a defect.
        """
        if not plans:
            return []
        time_s = np.array([[one.time_s for one in plan.options] for plan in plans]).T
        pipeline = self.pipeline
        timelines = simulate_plans(self.problem.schedule, time_s, pipeline.p2p_time_s, pipeline.fixed_time_s)
        return [self._judged(plan, timeline) for plan, timeline in zip(plans, timelines, strict=True)]

    def _judged(self, plan: PaperPlan, timeline: Timeline) -> FrontierPoint:
        problem = self.problem
        makespan_s = timeline.iteration_time_s - self.pipeline.fixed_time_s
        _check_agreement(makespan_s, plan.makespan_s)
        time_s, energy_j = [one.time_s for one in plan.options], [one.energy_j for one in plan.options]
        stages = problem.schedule.stages
        plan_j = iteration_energy_j(timeline, time_s, energy_j, problem.wait_power_w, stages)
        bound_j = plan.bound_j(makespan_s) + problem.static_power_w * self.pipeline.fixed_time_s
        _check_bound(plan_j, bound_j)
        return self._point(plan, timeline, plan_j, bound_j)

    def _point(self, plan: PaperPlan, timeline: Timeline, plan_j: float, bound_j: float) -> FrontierPoint:
        total_s, gpus = timeline.iteration_time_s, self.gpus_per_stage
        static_j = self.problem.static_power_w * total_s
        loads = loads_of(self.problem.schedule, timeline, plan.options, self.problem.wait_power_w)
        saving = self.savings.of(plan.options, total_s)
        clocks = [one.sm_clock_mhz for one in plan.options]
        return FrontierPoint(
            names=(),
            iteration_time_s=total_s,
            energy_j=plan_j * gpus,
            lower_bound_j=bound_j * gpus,
            gap=plan_j / bound_j - 1,
            dynamic_j=(plan_j - static_j) * gpus,
            static_j=static_j * gpus,
            average_power_w=plan_j * gpus / total_s,
            marginal_power_w=-self.slope_w(total_s - self.pipeline.fixed_time_s) * gpus,
            clock_switches=_clock_switches(self.problem.schedule, clocks),
            choices=plan.choices,
            saved_waiting_j=saving.waiting_j * gpus,
            saved_clock_j=saving.clock_j * gpus,
            saved_overlap_j=saving.overlap_j * gpus,
            saved_sm_share_j=saving.sm_share_j * gpus,
            peak_power_w=loads.of_pipeline(gpus).peak_w(self.peak_lasts_s),
        )


def _check_agreement(simulated_s: float, solver_s: float) -> None:
    if abs(simulated_s - solver_s) > _AGREEMENT * solver_s:
        raise SolverError(
            f"the simulator needs {simulated_s} s where the solver has {solver_s} s: a defect of energyopt"
        )


def _check_bound(plan_j: float, bound_j: float) -> None:
    if plan_j < bound_j * (1 - _AGREEMENT):
        raise SolverError(
            f"a plan of {plan_j} J lies below its proven bound of {bound_j} J: a defect of energyopt"
        )


def _clock_switches(schedule: Schedule, clocks: list[int]) -> int:
    switches, first = 0, 0
    for order in schedule.orders:
        stage = clocks[first : first + len(order)]
        switches += sum(one != other for one, other in pairwise(stage))
        first += len(order)
    return switches


def undominated(points: list[FrontierPoint]) -> list[FrontierPoint]:
    """The points that no other beats in both time and energy, fastest first."""
    kept: list[FrontierPoint] = []
    for point in sorted(points, key=lambda one: (one.iteration_time_s, one.energy_j, one.choices)):
        if not kept or point.energy_j < kept[-1].energy_j:
            kept.append(point)
    return kept


def named_points(points: list[FrontierPoint], max_clock: Baseline) -> tuple[FrontierPoint, ...]:
    """Name the points that every frontier has; of those within the baseline's time the cheapest.

    None is within it where plans of few clock changes are all slower: clocks that each kind of operation has to
    itself.
    """
    in_time = [point for point in points if point.iteration_time_s <= max_clock.iteration_time_s]
    special = {
        "fastest": points[0],
        "max_clock_time": in_time[-1] if in_time else None,
        "min_energy": points[-1],
        "best_edp": min(points, key=lambda one: one.energy_j * one.iteration_time_s),
    }
    return tuple(
        replace(point, names=tuple(name for name, one in special.items() if one is point)) for point in points
    )


def fewest(points: tuple[FrontierPoint, ...], most: int) -> tuple[FrontierPoint, ...]:
    """At most so many points: those go first without which the frontier changes least; named ones stay."""
    kept = list(points)
    while len(kept) > most:
        worth = [_worth(*kept[index - 1 : index + 2]) for index in range(1, len(kept) - 1)]
        nameless = [(one, index) for index, one in enumerate(worth, start=1) if not kept[index].names]
        if not nameless:
            break
        kept.pop(min(nameless)[1])
    return tuple(kept)


def _worth(faster: FrontierPoint, point: FrontierPoint, slower: FrontierPoint) -> float:
    """The area between the frontier with a point and without it, in J s."""
    left_s, right_s = point.iteration_time_s - faster.iteration_time_s, slower.iteration_time_s
    left_j, right_j = point.energy_j - faster.energy_j, slower.energy_j - faster.energy_j
    return abs(left_s * right_j - (right_s - faster.iteration_time_s) * left_j) / 2
