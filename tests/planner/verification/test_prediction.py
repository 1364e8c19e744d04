"""Pricing a plan's clocks: the job of tests/conftest.py, worked out by hand there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.planner.verification.prediction import option_at, predict
from energyopt.schemas.errors import NotComparableError, ProfileError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.options import Option
from energyopt.schemas.plan import Plan
from energyopt.schemas.profile import Profile

OPTIONS = tuple(
    Option(sm_clock_mhz=clock, time_s=2 - clock / 1000, energy_j=clock / 10) for clock in (1000, 1020, 1100)
)


def test_the_fastest_point_costs_what_its_frontier_says(
    small_plan: Plan, small_frontier: Frontier, small_profile: Profile
) -> None:
    found = predict(small_plan.stages, small_plan.pipeline, small_frontier.schedule, small_profile)
    assert found.iteration_time_s == pytest.approx(9.0)
    assert sum(found.stage_energy_j) == pytest.approx(3975.0)
    assert found.stage_busy_s == pytest.approx((6.75, 6.0))
    assert (found.between, found.beyond) == (0, 0)


def test_fitted_times_of_the_profile_come_before_the_plans(
    small_plan: Plan, small_frontier: Frontier, small_profile: Profile
) -> None:
    pipeline = replace(small_plan.pipeline, fixed_time_s=5.0)
    found = predict(small_plan.stages, pipeline, small_frontier.schedule, small_profile)
    assert found.iteration_time_s == pytest.approx(14.0)
    fitted = replace(
        small_profile, metadata=replace(small_profile.metadata, fixed_time_s=1.0, p2p_time_s=0.0)
    )
    again = predict(small_plan.stages, pipeline, small_frontier.schedule, fitted)
    assert again.iteration_time_s == pytest.approx(10.0)
    assert sum(again.stage_energy_j) == pytest.approx(3975.0 + 2 * 100.0)


def _at(plan: Plan, clock: int) -> Plan:
    return replace(
        plan, stages=tuple(tuple(replace(op, sm_clock_mhz=clock) for op in ops) for ops in plan.stages)
    )


def test_clocks_without_rows_are_interpolated_extrapolated_or_refused(
    small_plan: Plan, small_frontier: Frontier, small_profile: Profile
) -> None:
    args = (small_plan.pipeline, small_frontier.schedule, small_profile)
    between = predict(_at(small_plan, 1200).stages, *args)
    assert (between.between, between.beyond) == (8, 0)
    assert between.stage_busy_s == pytest.approx((6.75, 6.75))  # forwards 1.125 s, backwards 2.25 s
    beyond = predict(_at(small_plan, 1440).stages, *args)
    assert (beyond.between, beyond.beyond) == (0, 8)
    with pytest.raises(
        ProfileError, match=r"8 of 8 operations run far from any row .* at 1600 MHz, .*1000 to 1400"
    ):
        predict(_at(small_plan, 1600).stages, *args)


def test_a_plan_of_other_operations_is_refused(
    small_plan: Plan, small_frontier: Frontier, small_profile: Profile
) -> None:
    shorter = (small_plan.stages[0][:-1], small_plan.stages[1])
    with pytest.raises(
        NotComparableError, match="the plan has 7 operations, schedule 1f1b 8, 7 of them in common"
    ):
        predict(shorter, small_plan.pipeline, small_frontier.schedule, small_profile)


@pytest.mark.parametrize("clock", [900, 1000, 1010, 1050, 1100, 1200])
def test_a_straight_line_is_met_everywhere(clock: int) -> None:
    found = option_at(OPTIONS, clock)
    assert found.time_s == pytest.approx(2 - clock / 1000)
    assert found.energy_j == pytest.approx(clock / 10)


def test_a_single_row_serves_every_clock() -> None:
    assert option_at(OPTIONS[:1], 1300).time_s == OPTIONS[0].time_s


@given(st.integers(1000, 1100))
def test_what_lies_between_rows_lies_between_their_values(clock: int) -> None:
    rough = (OPTIONS[0], replace(OPTIONS[1], time_s=0.5), OPTIONS[2])
    times = [one.time_s for one in rough]
    assert min(times) <= option_at(rough, clock).time_s <= max(times)
