"""Planning a profile: from rows and a schedule to a frontier whose every number is recomputed independently."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyopt.planner.arrays import Ints
from energyopt.planner.baselines import max_clock_baseline, max_clock_times_s, single_clock_baselines
from energyopt.planner.composition.restriction import Only, restricted
from energyopt.planner.composition.switching import SwitchCost, refuse_uncounted
from energyopt.planner.composition.table import Composition, Offer, offered_options
from energyopt.planner.graph import build_graph
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.points import PointMaker, fewest, named_points, undominated
from energyopt.planner.power.rule import PeakRule
from energyopt.planner.problem import Problem, build_problem
from energyopt.planner.progress import Progress, Warn, ignore, part, silent
from energyopt.planner.savings import Savings
from energyopt.planner.solve import Effort
from energyopt.planner.ways import WayPlans, joint_options, plan_ways
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.ops import Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline
from energyopt.schemas.profile import Profile

if TYPE_CHECKING:
    from energyopt.planner.limits.tradeoff import Tradeoff

FEWEST_POINTS = 4  # fastest, baseline's time, least energy, least energy-delay product
_UNCAPPED = 0.2  # share of planning under a cap that planning without it takes


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
    peak: PeakRule | None = None,
    warn: Warn = ignore,
    progress: Progress = silent,
) -> Frontier:
    """The energy-time frontier of one job, with at most `points` points.

    Times and energies come from the simulator, run on the profile's own rows; bounds are certified. Where `limits`
    on clock changes are met by all plans as they are, the frontier is the one without limits; else plans obey
    them, and bounds hold for all that do (`limits.frontier` says which). `only` restricts plans to
    clocks, or to overlap at the highest clock. Under a cap on peak power, plans obey it, and their bounds are those
    without it.

    Raises:
        RequestError: fewer points asked for than are always contained, or limits that no plan can meet, or that do
            not count what `composition` allows, or a cap that no plan found keeps to.
        ProfileError: an operation of the schedule has no usable row.
        ScheduleError: the schedule is incomplete or cyclic.
    """
    composition = composition or Composition()
    limited = limits is not None and limits.max_switches is not None
    refuse_uncounted(composition.switch, limited=limited)
    job = _prepared(profile, pipeline, schedule, composition, only, peak, warn)
    if job.peak.cap_w is None:
        ways = _planned(job, points, effort, limits, progress)
        return _frontier(job, ways, ways, points, limits)
    ways = _planned(job, points, effort, limits, part(progress, 0.0, _UNCAPPED))
    kept = _keeping_to_cap(job, ways, points, effort, limits, part(progress, _UNCAPPED, 1.0))
    return _frontier(job, ways, kept, points, limits)


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
    peak: PeakRule | None = None,
    warn: Warn = ignore,
    progress: Progress = silent,
) -> "tuple[Frontier, Tradeoff]":
    """The frontier of `plan_frontier`, and what fewer clock changes would cost at a few iteration times.

    Raises:
        As `plan_frontier`, and RequestError: a cap on peak power, which is not weighed.
    """
    from energyopt.planner.limits.tradeoff import weigh  # loaded here: few ask for it

    if peak is not None and peak.cap_w is not None:
        raise RequestError("--switch-tradeoff knows no --peak-power-cap-w; leave one of the two out")
    composition = composition or Composition()
    refuse_uncounted(composition.switch, limited=True)
    job = _prepared(profile, pipeline, schedule, composition, only, peak, warn)
    ways = _planned(job, points, effort, limits, progress)
    frontier = _frontier(job, ways, ways, points, limits)
    dwell_s = 0.0 if limits is None else limits.min_dwell_s
    problem, solved, baseline = ways[0].problem, ways[0].solved, frontier.max_clock
    return frontier, weigh(problem, solved, baseline, job.gpus_per_stage, dwell_s, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is planned for; one problem for each way to cut the microbatch."""

    profile: Profile
    pipeline: Pipeline
    offer: Offer
    problems: tuple[Problem, ...]
    only: Only | None
    switch: SwitchCost | None
    peak: PeakRule

    @property
    def gpus_per_stage(self) -> int:
        return self.profile.metadata.gpus_per_stage


def _prepared(
    profile: Profile,
    pipeline: Pipeline,
    schedule: Schedule,
    composition: Composition,
    only: Only | None,
    peak: PeakRule | None,
    warn: Warn,
) -> _Job:
    graph = build_graph(schedule, pipeline.p2p_time_s)
    offer = offered_options(restricted(profile, only), [op.key for op in schedule.ops], composition)
    for text in offer.missing:
        warn(f"left out: {text}")
    wait_w, fixed_s = profile.metadata.wait_power_w, pipeline.fixed_time_s
    problems = tuple(
        build_problem(schedule, graph, offer.measured, wait_w, fixed_s, offered, way)
        for way, offered in offer.offered.items()
    )
    return _Job(
        profile=profile,
        pipeline=pipeline,
        offer=offer,
        problems=problems,
        only=only,
        switch=composition.switch,
        peak=peak or PeakRule(),
    )


def _planned(
    job: _Job, points: int, effort: Effort, limits: SwitchLimits | None, progress: Progress
) -> list[WayPlans]:
    if points < FEWEST_POINTS:
        raise RequestError(f"a frontier has at least {FEWEST_POINTS} points, not {points}; raise --points")
    first = job.problems[0]
    baseline_s = first.paths.makespan_s(max_clock_times_s(first))
    return plan_ways(job.problems, baseline_s, points, effort, limits, progress)


def _keeping_to_cap(
    job: _Job,
    ways: list[WayPlans],
    points: int,
    effort: Effort,
    limits: SwitchLimits | None,
    progress: Progress,
) -> list[WayPlans]:
    """Plans that keep to the cap on peak power, those of `ways` among them."""
    from energyopt.planner.power.cap import CapSearch  # loaded here: few ask for it
    from energyopt.planner.power.trials import Court

    baseline_s = ways[0].problem.paths.makespan_s(max_clock_times_s(ways[0].problem))
    court = Court(
        offer=job.offer,
        pipeline=job.pipeline,
        gpus_per_stage=job.gpus_per_stage,
        rule=job.peak,
        limits=limits,
    )
    search = CapSearch(
        problems=job.problems,
        court=court,
        effort=effort,
        plan=lambda problems, effort: plan_ways(problems, baseline_s, points, effort, limits, silent),
    )
    return search.run(ways, progress)


def _frontier(
    job: _Job, ways: list[WayPlans], kept: list[WayPlans], most: int, limits: SwitchLimits | None
) -> Frontier:
    """The frontier of the plans `kept`, with the bounds that `ways` prove."""
    problem, profile, schedule = ways[0].problem, job.profile, job.problems[0].schedule
    options, places = joint_options(kept)
    max_clock = max_clock_baseline(problem, job.pipeline, job.gpus_per_stage)
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
        switch_time_s=None if job.switch is None else job.switch.time_s,
        switch_energy_j=None if job.switch is None else job.switch.energy_j,
        peak_power_cap_w=job.peak.cap_w,
        peak_lasts_s=job.peak.lasts_s,
        gpus=schedule.stages * job.gpus_per_stage,
        pipeline=job.pipeline,
        schedule=schedule,
        options={key: options[index] for index, key in enumerate(sorted(job.offer.measured))},
        max_clock=max_clock,
        single_clocks=single_clock_baselines(problem, job.gpus_per_stage),
        points=_points(job, ways, list(zip(kept, places, strict=True)), most, max_clock),
    )


def _points(
    job: _Job,
    ways: list[WayPlans],
    kept: list[tuple[WayPlans, list[Ints]]],
    most: int,
    max_clock: Baseline,
) -> tuple[FrontierPoint, ...]:
    """The plans kept as points, with where their options are, bounded by the prices of all `ways`."""
    maker = PointMaker(
        problem=ways[0].problem,
        pipeline=job.pipeline,
        gpus_per_stage=job.gpus_per_stage,
        savings=Savings(ways[0].problem, job.offer, max_clock.iteration_time_s),
        slope_w=lambda makespan_s: _steepest(ways, makespan_s),
        peak_lasts_s=job.peak.lasts_s,
    )
    plans = [
        plan
        for way, places in kept
        for plan in way.plans(places, lambda makespan_s: max(one.bound_j(makespan_s) for one in ways))
    ]
    found = named_points(undominated(maker.points(plans)), max_clock)
    return fewest(found, most) if len(found) > most else found


def _steepest(ways: list[WayPlans], makespan_s: float) -> float:
    """The slope of the bound that is highest at this makespan."""
    best = max(ways, key=lambda one: one.bound_j(makespan_s))
    return best.solved.curve.slope_w(makespan_s)
