"""What savings come from: the parts add up, and each is what the definition says."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.planner.composition.table import Composition
from energyopt.planner.frontier import plan_frontier
from energyopt.planner.job import build_job
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import SAVINGS, FrontierPoint
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow

Row = tuple[int, int, float, float, int | None]  # clock, nanobatches, time_s, energy_j, SMs (0: sequential)


def _saved(point: FrontierPoint) -> list[float]:
    return [getattr(point, name) for name in SAVINGS]


def _adds_up(frontier: Frontier) -> None:
    for point in frontier.points:
        expected_j = frontier.max_clock.energy_j - point.energy_j
        assert sum(_saved(point)) == pytest.approx(expected_j, abs=1e-9 * frontier.max_clock.energy_j)


@pytest.mark.parametrize("whole", [None, 1.1])
@pytest.mark.parametrize("seed", range(2))
def test_the_parts_add_up(partition_job: Callable[..., Any], seed: int, whole: float | None) -> None:
    profile, pipeline, schedule = partition_job(seed, whole=whole, fixed_time_s=0.5)
    frontier = plan_frontier(profile, pipeline, schedule, points=8)
    _adds_up(frontier)
    assert any(point.saved_overlap_j for point in frontier.points)


def test_the_parts_add_up_where_options_were_left_out(partition_job: Callable[..., Any]) -> None:
    profile, pipeline, schedule = partition_job(9)
    _adds_up(plan_frontier(profile, pipeline, schedule, points=8, composition=Composition(most=3)))


def test_the_parts_add_up_under_limits(partition_job: Callable[..., Any]) -> None:
    profile, pipeline, schedule = partition_job(10)
    limits = SwitchLimits(max_switches=1)
    _adds_up(plan_frontier(profile, pipeline, schedule, points=6, limits=limits))


def test_clocks_alone_save_by_waiting_and_clocks(random_job: Callable[..., Any]) -> None:
    profile, pipeline, schedule = random_job(3)
    frontier = plan_frontier(profile, pipeline, schedule, points=6)
    _adds_up(frontier)
    assert {(point.saved_overlap_j, point.saved_sm_share_j) for point in frontier.points} == {(0.0, 0.0)}


def _row(
    op: OpKind, clock: int, nanobatches: int, time_s: float, energy_j: float, sms: int | None
) -> ProfileRow:
    return ProfileRow(
        level=Level.PARTITION,
        stage=0,
        chunk=0,
        op=op,
        partition="attention",
        count=nanobatches,
        execution="sequential" if sms == 0 else "overlapped",
        comm_sms=sms or None,
        comm_launch=None if sms == 0 else "norm",
        nanobatches=nanobatches,
        sm_clock_mhz=clock,
        time_s=time_s,
        energy_j=energy_j,
        energy_source=EnergySource.MODEL,
    )


def _plan(make_profile: Callable[..., Profile], rows: list[Row], gpus_per_stage: int = 1) -> Frontier:
    """One stage, one microbatch, 10 W of wait power; the backward takes 1 s and 100 J at 1400 MHz, and no other.

    It costs the same whole and in two nanobatches.
    """
    backward = make_profile([(0, 0, OpKind.BACKWARD, 1400, 1.0, 100.0)], 10.0, gpus_per_stage)
    cut = [_row(OpKind.BACKWARD, 1400, count, 1.0 / count, 100.0 / count, 0) for count in (1, 2)]
    forward = [_row(OpKind.FORWARD, *row) for row in rows]
    profile = Profile(metadata=backward.metadata, rows=(*backward.rows, *cut, *forward))
    pipeline, schedule = build_job({"stages": 1, "microbatches": 1, "schedule": "1f1b"}, profile)
    return plan_frontier(profile, pipeline, schedule, points=4)


def test_each_part_by_hand(make_profile: Callable[..., Profile]) -> None:
    """Effective energies of the forward (energy - 10 W x time) at 1400 and 1000 MHz.

    As it runs without a plan: 200 - 20 = 180 J, 180 - 25 = 155 J. Overlapped with the library's SMs: 150 - 16 =
    134 J, 130 - 20 = 110 J. With 4 SMs: 140 - 15 = 125 J, 120 - 18 = 102 J. The baseline takes 2 + 1 s.
    """
    frontier = _plan(
        make_profile,
        [
            (1400, 1, 2.0, 200.0, 0),
            (1000, 1, 2.5, 180.0, 0),
            (1400, 2, 0.8, 75.0, None),
            (1400, 2, 0.75, 70.0, 4),
            (1000, 2, 1.0, 65.0, None),
            (1000, 2, 0.9, 60.0, 4),
        ],
    )
    assert (frontier.max_clock.iteration_time_s, frontier.max_clock.energy_j) == pytest.approx((3.0, 300.0))
    fast, thrifty = frontier.points
    assert (fast.iteration_time_s, fast.energy_j) == pytest.approx((2.5, 240.0))
    assert _saved(fast) == pytest.approx([10 * 0.5, 0.0, 180 - 134, 134 - 125])
    assert (thrifty.iteration_time_s, thrifty.energy_j) == pytest.approx((2.8, 220.0))
    assert _saved(thrifty) == pytest.approx([10 * 0.2, 180 - 155, 155 - 110, 110 - 102])


def test_without_the_librarys_own_the_most_sms_are_what_it_would_take(
    make_profile: Callable[..., Profile],
) -> None:
    """8 SMs: 150 - 16 = 134 J; 4 SMs: 140 - 15 = 125 J; without a plan 180 J."""
    rows: list[Row] = [(1400, 1, 2.0, 200.0, 0), (1400, 2, 0.8, 75.0, 8), (1400, 2, 0.75, 70.0, 4)]
    (point,) = _plan(make_profile, rows).points
    assert _saved(point) == pytest.approx([5.0, 0.0, 180 - 134, 134 - 125])


def test_savings_cover_all_gpus_of_a_stage(make_profile: Callable[..., Profile]) -> None:
    rows: list[Row] = [(1400, 1, 2.0, 200.0, 0), (1400, 2, 0.8, 75.0, None)]
    one, eight = (_plan(make_profile, rows, gpus).points[0] for gpus in (1, 8))
    assert _saved(eight) == pytest.approx([8 * value for value in _saved(one)])
