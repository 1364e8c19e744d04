"""Ways to cut the microbatch: one for a whole plan, none left out that is better, and limits on clock changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.composition.table import Composition
from energyopt.planner.frontier import plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.profile import Profile

SEEDS = range(2)
EXACT = Composition(most=0)


def _ways(frontier: Frontier) -> list[set[int]]:
    """The numbers of nanobatches that each point's operations are cut into."""
    return [
        {
            frontier.options[op.key][choice].nanobatches
            for op, choice in zip(frontier.schedule.ops, point.choices, strict=True)
        }
        for point in frontier.points
    ]


def _only(profile: Profile, nanobatches: int) -> Profile:
    rows = tuple(row for row in profile.rows if row.nanobatches in (nanobatches, None))
    return replace(profile, rows=rows)


def _plan(job: Any, profile: Profile, limits: SwitchLimits | None = None, *, points: int = 8) -> Frontier:
    return plan_frontier(profile, job.pipeline, job.schedule, points=points, limits=limits, composition=EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_keeps_to_one_way(seed: int, partition_job: Callable[..., Any]) -> None:
    job = partition_job(seed, stages=3, microbatches=3)
    assert all(len(ways) == 1 for ways in _ways(_plan(job, job.profile)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [None, 0, 3])
def test_no_way_alone_beats_the_plans_of_all(
    seed: int, most: int | None, partition_job: Callable[..., Any]
) -> None:
    """At every iteration time, limits on clock changes or not."""
    job = partition_job(seed, stages=3, microbatches=3)
    limits = None if most is None else SwitchLimits(max_switches=most)
    together = _plan(job, job.profile, limits, points=20)
    for way in (1, 2):
        for point in _plan(job, _only(job.profile, way), limits).points:
            in_time = [
                one.energy_j
                for one in together.points
                if one.iteration_time_s <= point.iteration_time_s * (1 + 1e-9)
            ]
            assert point.energy_j >= point.lower_bound_j * (1 - 1e-9)
            assert not in_time or min(in_time) <= point.energy_j * 1.03, "at most what a few points leave out"
        fastest_s = _plan(job, _only(job.profile, way), limits).points[0].iteration_time_s
        assert together.points[0].iteration_time_s <= fastest_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_few_clock_changes_do_not_slow_the_fastest_options_down(
    seed: int, partition_job: Callable[..., Any]
) -> None:
    """All operations at one clock, each in its fastest configuration, need no change at all."""
    job = partition_job(seed, stages=2, microbatches=4)
    limited = _plan(job, job.profile, SwitchLimits(max_switches=0))
    for clock in {row.sm_clock_mhz for row in job.profile.rows}:
        rows = tuple(row for row in job.profile.rows if row.sm_clock_mhz == clock)
        single = _plan(job, replace(job.profile, rows=rows))
        assert limited.points[0].iteration_time_s <= single.points[0].iteration_time_s * (1 + 1e-9)
    assert all(point.clock_switches == 0 for point in limited.points)
