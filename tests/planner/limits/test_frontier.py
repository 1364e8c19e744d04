"""Frontiers under limits: counted and timed by our own loops, the best there is if tiny, untouched where met."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.simulation import Timeline, simulate
from energyopt.planner.solve import Effort
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.ops import Schedule


def _clocks(frontier: Frontier, point: FrontierPoint) -> list[list[int]]:
    """The clock of every operation, stage by stage."""
    choices = iter(point.choices)
    return [
        [frontier.options[op.key][next(choices)].sm_clock_mhz for op in order]
        for order in frontier.schedule.orders
    ]


def _switches(frontier: Frontier, point: FrontierPoint) -> int:
    return sum(one != other for stage in _clocks(frontier, point) for one, other in pairwise(stage))


def _shortest_dwell_s(frontier: Frontier, point: FrontierPoint) -> float:
    ops = frontier.schedule.ops
    time_s = [frontier.options[op.key][choice].time_s for op, choice in zip(ops, point.choices, strict=True)]
    timeline = simulate(
        frontier.schedule, time_s, frontier.pipeline.p2p_time_s, frontier.pipeline.fixed_time_s
    )
    return _shortest_span_s(timeline, _clocks(frontier, point))


def _dwell_of(schedule: Schedule, plan: Any, table: ClockTable, p2p_time_s: float) -> float:
    """The same for a plan of clock indices."""
    time_s = [float(table.time_nC[op, clock]) for op, clock in enumerate(plan.clocks)]
    clocks = iter(plan.clocks)
    return _shortest_span_s(
        simulate(schedule, time_s, p2p_time_s), [[next(clocks) for _ in order] for order in schedule.orders]
    )


def _shortest_span_s(timeline: Timeline, orders: list[list[int]]) -> float:
    """Two iterations in a row, stage by stage: the time between changes after the first one."""
    starts, shortest_s = iter(timeline.start_s), float("inf")
    for clocks in orders:
        start_s = [next(starts) for _ in clocks]
        twice = [
            (s + turn * timeline.iteration_time_s, c)
            for turn in range(3)
            for s, c in zip(start_s, clocks, strict=True)
        ]
        changes = [later for (_, before), (later, after) in pairwise(twice) if before != after]
        shortest_s = min([shortest_s, *(b - a for a, b in pairwise(changes))])
    return shortest_s


@pytest.fixture(scope="module")
def job(random_job: Callable[..., Any]) -> Any:
    return random_job(5, most=10, stages=3, microbatches=4)


@pytest.fixture(scope="module")
def free(job: Any) -> Frontier:
    return plan_frontier(*job, points=4)


@pytest.mark.parametrize("limit", [0, 4, 9])
def test_plans_obey_and_lie_above_their_bounds(job: Any, free: Frontier, limit: int) -> None:
    frontier = plan_frontier(*job, points=4, limits=SwitchLimits(max_switches=limit))
    assert len(frontier.points) >= 3
    for point in frontier.points:
        assert _switches(frontier, point) == point.clock_switches <= limit
        assert 0 <= point.gap <= 0.06
    names = {name for point in frontier.points for name in point.names}
    assert names == {"fastest", "max_clock_time", "min_energy", "best_edp"}
    in_time = next(point for point in frontier.points if "max_clock_time" in point.names)
    free_in_time = next(point for point in free.points if "max_clock_time" in point.names)
    assert in_time.energy_j >= free_in_time.lower_bound_j


@pytest.mark.parametrize("dwell_s", [2.5, 6.0])
def test_clocks_are_kept_for_as_long_as_asked(job: Any, dwell_s: float) -> None:
    frontier = plan_frontier(*job, points=4, limits=SwitchLimits(min_dwell_s=dwell_s))
    for point in frontier.points:
        assert _shortest_dwell_s(frontier, point) >= dwell_s * (1 - 1e-9)
        assert point.energy_j >= point.lower_bound_j * (1 - 1e-9)
    assert any(point.clock_switches > 0 for point in frontier.points)


def test_a_dwell_beyond_the_iteration_leaves_one_clock_per_stage(job: Any) -> None:
    frontier = plan_frontier(*job, points=4, limits=SwitchLimits(min_dwell_s=1000.0))
    assert all(point.clock_switches == 0 for point in frontier.points)


@pytest.mark.parametrize(
    "limits", [SwitchLimits(), SwitchLimits(max_switches=10**6), SwitchLimits(min_dwell_s=0.01)]
)
def test_limits_that_are_met_change_nothing(job: Any, free: Frontier, limits: SwitchLimits) -> None:
    found = plan_frontier(*job, points=4, limits=limits)
    assert (found.max_switches, found.min_dwell_s) == (limits.max_switches, limits.min_dwell_s)
    assert replace(found, max_switches=None, min_dwell_s=0.0) == free


def test_the_same_limits_give_the_same_plans(job: Any) -> None:
    limits = SwitchLimits(max_switches=6, min_dwell_s=1.5)
    assert plan_frontier(*job, points=4, limits=limits) == plan_frontier(*job, points=4, limits=limits)


@pytest.mark.parametrize("settings", [{"stages": 2, "microbatches": 2}, {"stages": 3, "microbatches": 1}])
@pytest.mark.parametrize("limit", [0, 1])
def test_tiny_jobs_get_the_best_plan_there_is(
    settings: dict[str, Any],
    limit: int,
    random_job: Callable[..., Any],
    make_table: Callable[..., Any],
    every_plan: Callable[..., Any],
) -> None:
    for seed in range(2):
        job = random_job(seed, most=3, **settings)
        table = make_table(job)
        frontier = plan_frontier(*job, limits=SwitchLimits(max_switches=limit))
        plans = [plan for plan in every_plan(job, table) if plan.switches <= limit]
        static_w = table.problem.static_power_w
        for point in frontier.points:
            in_time = [p for p in plans if p.makespan_s <= point.iteration_time_s * (1 + 1e-9)]
            best_j = min(p.effective_j + static_w * p.makespan_s for p in in_time)
            least_j = min(p.effective_j for p in in_time) + static_w * point.iteration_time_s
            assert point.energy_j == pytest.approx(best_j, rel=1e-9)
            assert point.lower_bound_j <= least_j * (1 + 1e-9)


@pytest.mark.parametrize("decile", [4, 7])
@pytest.mark.parametrize("style", ["smooth", "noisy", "round"])
@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.NORMAL])
def test_no_plan_that_keeps_its_clocks_lies_below_the_bound(
    effort: Effort,
    style: str,
    decile: int,
    random_job: Callable[..., Any],
    make_table: Callable[..., Any],
    every_plan: Callable[..., Any],
) -> None:
    """Of tiny jobs, by trying all plans, of which half or fewer do; smooth ones get plans near the best."""
    for seed in range(2):
        job = random_job(seed, most=3, style=style, stages=2, microbatches=2)
        table = make_table(job)
        static_w = table.problem.static_power_w
        every = every_plan(job, table)
        kept_s = [_dwell_of(job.schedule, plan, table, job.pipeline.p2p_time_s) for plan in every]
        dwell_s = quantiles([one for one in kept_s if one < float("inf")], n=10)[decile]
        plans = [plan for plan, one in zip(every, kept_s, strict=True) if one >= dwell_s]
        frontier = plan_frontier(*job, effort=effort, limits=SwitchLimits(min_dwell_s=dwell_s))
        for point in frontier.points:
            in_time = [p for p in plans if p.makespan_s <= point.iteration_time_s * (1 + 1e-9)]
            best_j = min(p.effective_j + static_w * p.makespan_s for p in in_time)
            least_j = min(p.effective_j for p in in_time) + static_w * point.iteration_time_s
            assert point.lower_bound_j <= least_j * (1 + 1e-9)
            assert point.energy_j >= best_j * (1 - 1e-9)
            assert style != "smooth" or point.energy_j <= 1.03 * best_j


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.NORMAL])
def test_a_slow_plan_without_changes_proves_nothing_of_faster_ones(
    effort: Effort, random_job: Callable[..., Any], make_profile: Callable[..., Any]
) -> None:
    """Three forwards at 1400, 3 s, then three backwards at 1000, 3 s, keep their clocks; 12 s without a change."""
    job = random_job(0, most=1, stages=1, microbatches=3, schedule="gpipe")
    cost = {("forward", 1400): (1.0, 300.0), ("forward", 1000): (3.0, 900.0)}
    cost |= {("backward", 1000): (1.0, 300.0), ("backward", 1400): (3.0, 900.0)}
    rows = [(0, 0, kind, clock, *of_clock) for (kind, clock), of_clock in cost.items()]
    frontier = plan_frontier(
        make_profile(rows), job.pipeline, job.schedule, effort=effort, limits=SwitchLimits(min_dwell_s=3.5)
    )
    for point in frontier.points:
        assert _shortest_dwell_s(frontier, point) >= 3.5 * (1 - 1e-9)
        if point.iteration_time_s >= 10:  # clocks 1000, 1400, 1400, 1400, 1000, 1000: 10 s, 3000 J
            assert point.lower_bound_j <= 3000.0 + 80.0 * (point.iteration_time_s - 10) + 1e-6


@pytest.mark.parametrize(
    "limits", [SwitchLimits(min_dwell_s=6.0), SwitchLimits(max_switches=2)], ids=["dwell", "changes"]
)
def test_bounds_are_over_ways_at_other_clocks_too(
    limits: SwitchLimits, partition_job: Callable[..., Any]
) -> None:
    """Whole microbatches were measured at 1000 and 1400 MHz, halves at 1200 MHz alone; a false bound is refused."""
    clocks = {None: (1000, 1200, 1400), 1: (1000, 1400), 2: (1200,)}
    for seed in range(3):
        job = partition_job(seed, stages=2, microbatches=4)
        rows = tuple(
            row
            for row in job.profile.rows
            if row.execution == "sequential" and row.sm_clock_mhz in clocks[row.nanobatches]
        )
        profile = replace(job.profile, rows=rows)
        free = plan_frontier(profile, job.pipeline, job.schedule, points=4, effort=Effort.QUICK)
        found = plan_frontier(
            profile, job.pipeline, job.schedule, points=4, effort=Effort.QUICK, limits=limits
        )
        assert all(point.energy_j >= point.lower_bound_j * (1 - 1e-9) for point in found.points)
        least_j = min(one.lower_bound_j for one in free.points)
        assert min(one.energy_j for one in found.points) >= least_j * (1 - 1e-9)


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.NORMAL])
def test_where_no_plan_keeps_its_clocks_there_is_one_line(
    effort: Effort, random_job: Callable[..., Any], make_profile: Callable[..., Any]
) -> None:
    """Forwards and backwards share no clock, and each lasts a second or two."""
    job = random_job(3, most=1, stages=2, microbatches=3)
    rows = [
        (row.stage, row.chunk, row.op, clock, 1.0 + n, 300.0 - 100 * n)
        for row in job.profile.rows
        for n, clock in enumerate((1400, 1300) if row.op == "forward" else (1200, 1100))
    ]
    with pytest.raises(
        RequestError, match="keeps each clock for 400 s; lower --min-dwell-s, or profile the same"
    ):
        plan_frontier(
            make_profile(rows),
            job.pipeline,
            job.schedule,
            effort=effort,
            limits=SwitchLimits(min_dwell_s=400.0),
        )


def test_a_limit_that_no_plan_can_meet(
    random_job: Callable[..., Any], make_profile: Callable[..., Any]
) -> None:
    """Forward and backward were measured at different clocks: F F B B and F B F B need 1 + 3 changes."""
    job = random_job(0, most=1)
    clock = {"forward": 1000, "backward": 1100}
    rows = [(r.stage, r.chunk, r.op, clock[r.op], r.time_s, r.energy_j) for r in job.profile.rows]
    profile = make_profile(rows)
    with pytest.raises(
        RequestError, match="no plan makes do with 3 clock changes an iteration: 4 are needed"
    ):
        plan_frontier(profile, job.pipeline, job.schedule, limits=SwitchLimits(max_switches=3))
    frontier = plan_frontier(profile, job.pipeline, job.schedule, limits=SwitchLimits(max_switches=4))
    assert [point.clock_switches for point in frontier.points] == [4]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_switches": -1}, "--max-switches needs a number of at least 0, not -1"),
        ({"min_dwell_s": float("nan")}, "--min-dwell-s needs a finite time of at least 0 s, not nan"),
        ({"min_dwell_s": -0.1}, "not -0.1"),
        ({"min_dwell_s": float("inf")}, "not inf"),
    ],
)
def test_limits_that_are_none(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        SwitchLimits(**wrong)


@pytest.mark.parametrize(
    ("effort", "microbatches", "p2p_time_s", "forwards"),
    [
        (Effort.QUICK, 12, 0.0, 1.5),
        (Effort.QUICK, 72, 0.0, 1.5),
        (Effort.QUICK, 72, 0.0, 15.0),
        (Effort.NORMAL, 72, 0.003, 1.5),
        (Effort.NORMAL, 6, 0.003, 1.5),
    ],
)
def test_clocks_that_outlast_operations_cost_little(
    effort: Effort, microbatches: int, p2p_time_s: float, forwards: float, real_job: Callable[..., Any]
) -> None:
    """A real profile, and a clock that has to be kept for 1.5 forwards or 15; the bound knows little of that."""
    job = real_job("a100", microbatches=microbatches)
    job = job._replace(pipeline=replace(job.pipeline, p2p_time_s=p2p_time_s))
    dwell_s = forwards * min(row.time_s for row in job.profile.rows)
    settings = {"points": 8, "effort": effort, "limits": SwitchLimits(min_dwell_s=dwell_s)}
    frontier = plan_frontier(*job, **settings)
    for point in frontier.points:
        assert _shortest_dwell_s(frontier, point) >= dwell_s * (1 - 1e-9)
    gaps = [point.gap for point in frontier.points]
    assert len(gaps) >= 7
    assert max(gaps) <= 0.06
    assert median(gaps) <= 0.03
    assert frontier.points[0].iteration_time_s <= frontier.max_clock.iteration_time_s * (1 + 1e-9)
    if effort is Effort.QUICK:
        assert plan_frontier(*job, **settings) == frontier


@pytest.mark.parametrize("microbatches", [12, 72])
def test_a_dwell_beyond_a_real_iteration(microbatches: int, real_job: Callable[..., Any]) -> None:
    limits = SwitchLimits(min_dwell_s=1000.0)
    frontier = plan_frontier(
        *real_job("a100", microbatches=microbatches), points=4, effort=Effort.QUICK, limits=limits
    )
    assert all(point.clock_switches == 0 for point in frontier.points)
    assert len(frontier.points) >= 3


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.NORMAL])
def test_the_highest_clock_of_some_operations_alone(
    effort: Effort, random_job: Callable[..., Any], make_profile: Callable[..., Any]
) -> None:
    """Without limits forwards would run at a clock that backwards were not measured at, and change every time."""
    job = random_job(3, most=1, stages=2, microbatches=6)
    rows = []
    for row in job.profile.rows:
        for clock in (1300, 1400) if row.op == "forward" else (1300,):
            faster = 1300 / clock
            rows.append(
                (row.stage, row.chunk, row.op, clock, row.time_s * faster, row.energy_j / faster**0.5)
            )
    limits = SwitchLimits(min_dwell_s=2.5 * max(row.time_s for row in job.profile.rows))
    frontier = plan_frontier(
        make_profile(rows), job.pipeline, job.schedule, points=4, effort=effort, limits=limits
    )
    for point in frontier.points:
        assert _shortest_dwell_s(frontier, point) >= limits.min_dwell_s * (1 - 1e-9)


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.NORMAL])
def test_only_clocks_that_cannot_be_shared_are_worth_it(
    effort: Effort, random_job: Callable[..., Any], make_profile: Callable[..., Any]
) -> None:
    """The best clock of forwards is a bad one for backwards, and the other way round: all shared ones are slow."""
    job = random_job(3, most=1, stages=2, microbatches=4)
    cost = {("forward", 1300): (1.0, 100.0), ("forward", 1400): (2.0, 300.0)}
    cost |= {("backward", 1300): (3.0, 500.0), ("backward", 1400): (1.5, 200.0)}
    rows = [
        (row.stage, row.chunk, row.op, clock, *cost[str(row.op), clock])
        for row in job.profile.rows
        for clock in (1300, 1400)
    ]
    limits = SwitchLimits(min_dwell_s=4.0)
    frontier = plan_frontier(
        make_profile(rows), job.pipeline, job.schedule, points=4, effort=effort, limits=limits
    )
    for point in frontier.points:
        assert _shortest_dwell_s(frontier, point) >= 4.0 * (1 - 1e-9)
