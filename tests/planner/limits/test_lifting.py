"""Fewer microbatches make the schedule that a builder makes of them, and plans go on where it was cut."""

from collections.abc import Callable
from itertools import groupby, pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.lift_search import lifted_plans
from energyopt.planner.limits.lifting import Shorter, shorter
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee
from energyopt.planner.progress import silent
from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.solve import Effort
from energyopt.schemas.ops import Schedule
from energyopt.schemas.pipeline import Pipeline

SCHEDULES = [
    ("1f1b", 4, 40, 1),
    ("zb-h1", 4, 40, 1),
    ("interleaved-1f1b", 4, 40, 2),
    ("interleaved-1f1b", 4, 42, 2),  # the last group is smaller
]
LEFT = 20


@pytest.fixture(params=SCHEDULES, ids=lambda one: f"{one[0]}-{one[2]}")
def pipeline(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(zip(("schedule", "stages", "microbatches", "chunks_per_stage"), request.param, strict=True))


@pytest.fixture
def short(
    pipeline: dict[str, Any], random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> Shorter:
    found = shorter(make_problem(random_job(0, most=3, p2p_time_s=0.1, **pipeline)), LEFT)
    assert found is not None
    return found


def _built(pipeline: dict[str, Any]) -> Schedule:
    return build_schedule(Pipeline(**pipeline))


def test_fewer_microbatches_run_as_if_there_had_never_been_more(
    short: Shorter, pipeline: dict[str, Any]
) -> None:
    schedule = short.problem.schedule
    assert LEFT <= schedule.microbatches < pipeline["microbatches"]
    assert schedule == _built(pipeline | {"microbatches": schedule.microbatches})
    assert set(short.problem.graph.lag_s.tolist()) == {0.0, 0.1}


def test_every_operation_follows_one_of_its_kind_and_ends_follow_their_own(
    short: Shorter, pipeline: dict[str, Any]
) -> None:
    long, few = _built(pipeline), short.problem.schedule
    for source in short.source.T.tolist():
        assert [few.ops[at].key for at in source] == [op.key for op in long.ops]
        by_stage = [[few.ops[at] for at in source if few.ops[at].stage == stage] for stage in range(4)]
        for order, own in zip(by_stage, few.orders, strict=True):
            assert order[:8] == list(own[:8])
            assert order[-8:] == list(own[-8:])


def test_a_plan_that_changes_in_the_ramps_alone_changes_no_more_often(
    short: Shorter, pipeline: dict[str, Any]
) -> None:
    """Six operations at either end of each stage at random clocks, the others at one."""
    rng = np.random.default_rng(0)
    orders = [np.full(len(order), 9) for order in short.problem.schedule.orders]
    for clocks in orders:
        clocks[:6], clocks[-6:] = rng.integers(0, 9, (2, 6))
    lifted = short.lifted(np.concatenate(orders)[:, None])
    assert lifted.shape[1] == short.source.shape[1]
    ends = np.cumsum([len(order) for order in _built(pipeline).orders])[:-1]
    for plan in lifted.T:
        for long, few in zip(np.split(plan, ends), orders, strict=True):
            assert [clock for clock, _ in groupby(long.tolist())] == [
                clock for clock, _ in groupby(few.tolist())
            ]
            assert np.count_nonzero(long != 9) == np.count_nonzero(few != 9)


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"stages": 3, "microbatches": 24, "schedule": "gpipe"}, 12),
        ({"stages": 3, "microbatches": 12}, 12),
        ({"stages": 3, "microbatches": 12}, 20),
        ({"stages": 4, "microbatches": 12, "schedule": "interleaved-1f1b", "chunks_per_stage": 2}, 10),
        ({"stages": 6, "microbatches": 12}, 2),
    ],
)
def test_what_cannot_be_cut(
    settings: dict[str, Any], left: int, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    """No steady state, no more microbatches than that, less than a period more, or ramps that leave too few."""
    assert shorter(make_problem(random_job(0, most=2, **settings)), left) is None


@pytest.mark.parametrize("limit", [80, 500])
def test_plans_that_are_lifted_obey(
    limit: int, real_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    """They span the frontier, and need no short pipeline that keeps its clocks in the steady state."""
    problem = make_problem(real_job("a100", microbatches=72))
    referee = Referee(clock_table(problem))
    plans = lifted_plans(referee, SwitchLimits(max_switches=limit), 2, Effort.QUICK, silent)
    assert plans.shape[1] >= 5
    assert (referee.table.switches(plans) <= limit).all()
    makespan_s = referee.makespan_s(plans)
    energy_j = referee.table.effective_j(plans) + problem.static_power_w * makespan_s
    assert makespan_s.min() <= 1.02 * problem.paths.makespan_s(problem.fastest_s)
    assert energy_j.min() <= 0.9 * energy_j[makespan_s.argmin()]


def test_a_long_pipeline_of_few_changes(real_job: Callable[..., Any]) -> None:
    """72 microbatches, searched in 32: within 1 % of the bound in the median, as short ones are."""
    job, limit = real_job("a100", microbatches=72), 80
    frontier = plan_frontier(*job, points=5, effort=Effort.QUICK, limits=SwitchLimits(max_switches=limit))
    assert len(frontier.points) >= 5
    for point in frontier.points:
        choices = iter(point.choices)
        clocks = [
            [frontier.options[op.key][next(choices)].sm_clock_mhz for op in order]
            for order in frontier.schedule.orders
        ]
        assert sum(a != b for stage in clocks for a, b in pairwise(stage)) == point.clock_switches <= limit
        assert 0 <= point.gap <= 0.03
    assert median(point.gap for point in frontier.points) <= 0.01
