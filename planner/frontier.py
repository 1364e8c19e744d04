"""Planning a profile: from rows and a schedule to a frontier whose every number is recomputed independently."""

from dataclasses import replace
from itertools import pairwise

from energyopt.planner.baselines import max_clock_baseline, max_clock_times_s, single_clock_baselines
from energyopt.planner.graph import build_graph
from energyopt.planner.options import measured_options
from energyopt.planner.problem import Problem, build_problem
from energyopt.planner.progress import Progress, silent
from energyopt.planner.simulation import iteration_energy_j, simulate
from energyopt.planner.solve import Effort, Solved, solve_frontier
from energyopt.schemas.errors import RequestError, SolverError
from energyopt.schemas.frontier import Frontier, FrontierPoint
from energyopt.schemas.ops import Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline
from energyopt.schemas.profile import Profile

FEWEST_POINTS = 4  # fastest, baseline's time, least energy, least energy-delay product
_AGREEMENT = 1e-9  # relative difference between the solver's and the simulator's numbers that is rounding


def plan_frontier(
    profile: Profile,
    pipeline: Pipeline,
    schedule: Schedule,
    *,
    points: int = 20,
    effort: Effort = Effort.NORMAL,
    progress: Progress = silent,
) -> Frontier:
    """The energy-time frontier of one job, with at most `points` points.

    Times and energies come from the simulator, run on the profile's own rows; bounds are certified.

    Raises:
        RequestError: fewer points asked for than are always contained.
        ProfileError: an operation of the schedule has no usable row.
        ScheduleError: the schedule is incomplete or cyclic.
    """
    if points < FEWEST_POINTS:
        raise RequestError(f"a frontier has at least {FEWEST_POINTS} points, not {points}; raise --points")
    graph = build_graph(schedule, pipeline.p2p_time_s)
    table = measured_options(profile, {op.key for op in schedule.ops})
    problem = build_problem(schedule, graph, table, profile.metadata.wait_power_w, pipeline.fixed_time_s)
    gpus_per_stage = profile.metadata.gpus_per_stage
    max_clock = max_clock_baseline(problem, pipeline, gpus_per_stage)
    baseline_s = problem.paths.makespan_s(max_clock_times_s(problem))
    solved = solve_frontier(problem, baseline_s, points, effort, progress)
    found = [
        _point(problem, pipeline, solved, column, gpus_per_stage) for column in range(solved.choices.shape[1])
    ]
    return Frontier(
        profile_sha256=profile.sha256(),
        device_name=profile.metadata.device_name,
        device_kind=profile.metadata.device_kind,
        scope=profile.metadata.scope,
        wait_power_w=profile.metadata.wait_power_w,
        clock_switch_latency_s=profile.metadata.clock_switch_latency_s,
        gpus=schedule.stages * gpus_per_stage,
        pipeline=pipeline,
        schedule=schedule,
        options={key: problem.fronts[index].options for index, key in enumerate(sorted(table))},
        max_clock=max_clock,
        single_clocks=single_clock_baselines(problem, gpus_per_stage),
        points=_named(_undominated(found), max_clock),
    )


def _point(
    problem: Problem, pipeline: Pipeline, solved: Solved, column: int, gpus_per_stage: int
) -> FrontierPoint:
    """Run one plan through the simulator and put the certified bound beside it."""
    schedule, choices = problem.schedule, solved.choices[:, column].tolist()
    options = [
        problem.fronts[front].options[choice]
        for front, choice in zip(problem.front_of.tolist(), choices, strict=True)
    ]
    time_s, energy_j = [one.time_s for one in options], [one.energy_j for one in options]
    timeline = simulate(schedule, time_s, pipeline.p2p_time_s, pipeline.fixed_time_s)
    total_s = timeline.iteration_time_s
    makespan_s = total_s - pipeline.fixed_time_s
    _check_agreement(makespan_s, float(solved.makespan_s[column]))
    plan_j = iteration_energy_j(timeline, time_s, energy_j, problem.wait_power_w, schedule.stages)
    bound_j = solved.curve.bound_j(makespan_s) + problem.static_power_w * pipeline.fixed_time_s
    if plan_j < bound_j * (1 - _AGREEMENT):
        raise SolverError(
            f"a plan of {plan_j} J lies below its proven bound of {bound_j} J: a defect of energyopt"
        )
    static_j = problem.static_power_w * total_s
    return FrontierPoint(
        names=(),
        iteration_time_s=total_s,
        energy_j=plan_j * gpus_per_stage,
        lower_bound_j=bound_j * gpus_per_stage,
        gap=plan_j / bound_j - 1,
        dynamic_j=(plan_j - static_j) * gpus_per_stage,
        static_j=static_j * gpus_per_stage,
        average_power_w=plan_j * gpus_per_stage / total_s,
        marginal_power_w=-solved.curve.slope_w(makespan_s) * gpus_per_stage,
        clock_switches=_clock_switches(schedule, [one.sm_clock_mhz for one in options]),
        choices=tuple(choices),
    )


def _check_agreement(simulated_s: float, solver_s: float) -> None:
    if abs(simulated_s - solver_s) > _AGREEMENT * solver_s:
        raise SolverError(
            f"the simulator needs {simulated_s} s where the solver has {solver_s} s: a defect of energyopt"
        )


def _clock_switches(schedule: Schedule, clocks: list[int]) -> int:
    switches, first = 0, 0
    for order in schedule.orders:
        stage = clocks[first : first + len(order)]
        switches += sum(one != other for one, other in pairwise(stage))
        first += len(order)
    return switches


def _undominated(points: list[FrontierPoint]) -> list[FrontierPoint]:
    """The points that no other beats in both time and energy, fastest first."""
    kept: list[FrontierPoint] = []
    for point in sorted(points, key=lambda one: (one.iteration_time_s, one.energy_j, one.choices)):
        if not kept or point.energy_j < kept[-1].energy_j:
            kept.append(point)
    return kept


def _named(points: list[FrontierPoint], max_clock: Baseline) -> tuple[FrontierPoint, ...]:
    """Name the points that every frontier has; of those within the baseline's time the cheapest."""
    in_time = [point for point in points if point.iteration_time_s <= max_clock.iteration_time_s]
    special = {
        "fastest": points[0],
        "max_clock_time": in_time[-1],
        "min_energy": points[-1],
        "best_edp": min(points, key=lambda one: one.energy_j * one.iteration_time_s),
    }
    return tuple(
        replace(point, names=tuple(name for name, one in special.items() if one is point)) for point in points
    )
