"""Planning a profile: from rows and a schedule to a frontier whose every number is recomputed independently."""

from collections.abc import Callable
from dataclasses import dataclass

from energyopt.planner.baselines import max_clock_baseline, max_clock_times_s, single_clock_baselines
from energyopt.planner.composition.restriction import Only, restricted
from energyopt.planner.composition.table import Composition, Offer, offered_options
from energyopt.planner.graph import build_graph
from energyopt.planner.limits.frontier import Limited, limit_plans
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.tradeoff import Tradeoff, weigh
from energyopt.planner.points import PaperPlan, PointMaker, named_points, undominated
from energyopt.planner.problem import Problem, build_problem
from energyopt.planner.progress import Progress, Warn, ignore, silent
from energyopt.planner.savings import Savings
from energyopt.planner.solve import Effort, Solved, solve_frontier
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import Schedule
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile

FEWEST_POINTS = 4  # fastest, baseline's time, least energy, least energy-delay product


def plan_frontier(
    profile: Profile,
    pipeline: Pipeline,
    schedule: Schedule,
    *,
    points: int = 20,
    effort: Effort = Effort.NORMAL,
    limits: SwitchLimits | None = None,
    composition: Composition | None = None,
    only: Only | None = None,
    warn: Warn = ignore,
    progress: Progress = silent,
) -> Frontier:
    """The energy-time frontier of one job, with at most `points` points.

    Times and energies come from the simulator, run on the profile's own rows; bounds are certified. Where `limits`
    on clock changes are met by all plans as they are, the frontier is the one without limits; else plans and their
    bounds are those under the limits. `only` restricts plans to clocks, or to overlap at the highest clock.

    Raises:
        RequestError: fewer points asked for than are always contained, or limits that no plan can meet.
        ProfileError: an operation of the schedule has no usable row.
        ScheduleError: the schedule is incomplete or cyclic.
    """
    job = _prepared(profile, pipeline, schedule, composition or Composition(), only, warn)
    return _frontier(job, _solved(job, points, effort, progress), limits, progress)


def plan_and_weigh(
    profile: Profile,
    pipeline: Pipeline,
    schedule: Schedule,
    *,
    points: int = 20,
    effort: Effort = Effort.NORMAL,
    limits: SwitchLimits | None = None,
    composition: Composition | None = None,
    only: Only | None = None,
    warn: Warn = ignore,
    progress: Progress = silent,
) -> tuple[Frontier, Tradeoff]:
    """The frontier of `plan_frontier`, and what fewer clock changes would cost at a few iteration times.

    Raises:
        As `plan_frontier`.
    """
    job = _prepared(profile, pipeline, schedule, composition or Composition(), only, warn)
    solved = _solved(job, points, effort, progress)
    frontier = _frontier(job, solved, limits, progress)
    dwell_s = 0.0 if limits is None else limits.min_dwell_s
    baseline = frontier.max_clock
    return frontier, weigh(job.problem, solved, baseline, job.gpus_per_stage, dwell_s, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is planned for."""

    profile: Profile
    pipeline: Pipeline
    offer: Offer
    problem: Problem
    only: Only | None

    @property
    def gpus_per_stage(self) -> int:
        return self.profile.metadata.gpus_per_stage


def _prepared(
    profile: Profile,
    pipeline: Pipeline,
    schedule: Schedule,
    composition: Composition,
    only: Only | None,
    warn: Warn,
) -> _Job:
    graph = build_graph(schedule, pipeline.p2p_time_s)
    offer = offered_options(restricted(profile, only), [op.key for op in schedule.ops], composition)
    for text in offer.missing:
        warn(f"left out: {text}")
    wait_w, fixed_s = profile.metadata.wait_power_w, pipeline.fixed_time_s
    problem = build_problem(schedule, graph, offer.measured, wait_w, fixed_s, offer.offered)
    return _Job(profile=profile, pipeline=pipeline, offer=offer, problem=problem, only=only)


def _solved(job: _Job, points: int, effort: Effort, progress: Progress) -> Solved:
    if points < FEWEST_POINTS:
        raise RequestError(f"a frontier has at least {FEWEST_POINTS} points, not {points}; raise --points")
    baseline_s = job.problem.paths.makespan_s(max_clock_times_s(job.problem))
    return solve_frontier(job.problem, baseline_s, points, effort, progress)


def _frontier(job: _Job, solved: Solved, limits: SwitchLimits | None, progress: Progress) -> Frontier:
    problem, profile, schedule = job.problem, job.profile, job.problem.schedule
    limited = None if limits is None else limit_plans(problem, solved, limits, progress)
    if limited is None:
        options, plans = [front.options for front in problem.fronts], _free_plans(problem, solved)
    else:
        options, plans = list(problem.measured), _limited_plans(problem, limited)
    max_clock = max_clock_baseline(problem, job.pipeline, job.gpus_per_stage)
    maker = PointMaker(
        problem=problem,
        pipeline=job.pipeline,
        gpus_per_stage=job.gpus_per_stage,
        savings=Savings(problem, job.offer, max_clock.iteration_time_s),
        slope_w=solved.curve.slope_w,
    )
    found = [maker.point(plan) for plan in plans]
    return Frontier(
        profile_sha256=profile.sha256(),
        device_name=profile.metadata.device_name,
        device_kind=profile.metadata.device_kind,
        scope=profile.metadata.scope,
        wait_power_w=profile.metadata.wait_power_w,
        clock_switch_latency_s=profile.metadata.clock_switch_latency_s,
        max_switches=None if limits is None else limits.max_switches,
        min_dwell_s=0.0 if limits is None else limits.min_dwell_s,
        only=job.only,
        thinning_error=job.offer.error,
        gpus=schedule.stages * job.gpus_per_stage,
        pipeline=job.pipeline,
        schedule=schedule,
        options={key: options[index] for index, key in enumerate(sorted(job.offer.measured))},
        max_clock=max_clock,
        single_clocks=single_clock_baselines(problem, job.gpus_per_stage),
        points=named_points(undominated(found), max_clock),
    )


def _free_plans(problem: Problem, solved: Solved) -> list[PaperPlan]:
    """The plans as they were solved for."""
    options = [problem.fronts[front].options for front in problem.front_of.tolist()]
    return [
        _plan(options, choices, makespan_s, solved.curve.bound_j)
        for choices, makespan_s in zip(solved.choices.T.tolist(), solved.makespan_s.tolist(), strict=True)
    ]


def _limited_plans(problem: Problem, limited: Limited) -> list[PaperPlan]:
    """Plans of clocks, which need not be on a front for their own sake, as options among all that were measured."""
    options = [problem.measured[front] for front in problem.front_of.tolist()]
    return [
        _plan(options, choices, makespan_s, limited.bound_j)
        for choices, makespan_s in zip(limited.choices.T.tolist(), limited.makespan_s.tolist(), strict=True)
    ]


def _plan(
    options: list[tuple[Option, ...]],
    choices: list[int],
    makespan_s: float,
    bound_j: Callable[[float], float],
) -> PaperPlan:
    chosen = [of_op[choice] for of_op, choice in zip(options, choices, strict=True)]
    return PaperPlan(options=chosen, choices=tuple(choices), makespan_s=makespan_s, bound_j=bound_j)
