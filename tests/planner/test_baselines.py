"""Iterations without a plan; expected numbers follow from the timeline in tests/conftest.py and by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.planner.baselines import max_clock_baseline, max_clock_times_s, single_clock_baselines
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile

F, B = OpKind.FORWARD, OpKind.BACKWARD


@pytest.fixture
def small(small_frontier: Frontier, small_profile: Profile, make_problem: Callable[..., Any]) -> Any:
    return make_problem((small_profile, small_frontier.pipeline, small_frontier.schedule))


def test_the_highest_clock_by_hand(small: Any, small_frontier: Frontier) -> None:
    found = max_clock_baseline(small, small_frontier.pipeline, 1)
    assert (found.iteration_time_s, found.energy_j, found.sm_clock_mhz) == (9.0, 4200.0, None)


def test_single_clocks_by_hand(small: Any) -> None:
    """At 1000 MHz all takes 1.25 times as long: 11.25 s, 15 s busy at 200 W, 7.5 s of waiting at 100 W."""
    found = single_clock_baselines(small, 1)
    assert [one.sm_clock_mhz for one in found] == [1000, 1400]
    assert [one.iteration_time_s for one in found] == pytest.approx([11.25, 9.0])
    assert [one.energy_j for one in found] == pytest.approx([3000.0 + 750.0, 4200.0])


def test_all_gpus_of_a_stage_count(small: Any, small_frontier: Frontier) -> None:
    assert max_clock_baseline(small, small_frontier.pipeline, 4).energy_j == pytest.approx(4 * 4200.0)
    assert [one.energy_j for one in single_clock_baselines(small, 4)] == pytest.approx([15000.0, 16800.0])


def test_fixed_and_transfer_time(
    small_profile: Profile, small_frontier: Frontier, make_problem: Callable[..., Any]
) -> None:
    """Two transfers of 0.5 s on the longest path and 3 s fixed: 13 s, and 2 x 4 s more at 100 W."""
    pipeline = Pipeline(stages=2, microbatches=2, p2p_time_s=0.5, fixed_time_s=3.0)
    problem = make_problem((small_profile, pipeline, small_frontier.schedule))
    highest, single = max_clock_baseline(problem, pipeline, 1), single_clock_baselines(problem, 1)[-1]
    for found in (highest, single):
        assert found.iteration_time_s == pytest.approx(13.0)
        assert found.energy_j == pytest.approx(4200.0 + 2 * 4.0 * 100.0)


def test_the_highest_clock_counts_even_where_it_is_the_worse_one(
    make_profile: Callable[..., Profile], small_frontier: Frontier, make_problem: Callable[..., Any]
) -> None:
    """It is what runs today, in the front or not."""
    rows = [(None, None, kind, *row) for kind in (F, B) for row in ((1400, 2.0, 500.0), (1300, 1.0, 300.0))]
    problem = make_problem((make_profile(rows), small_frontier.pipeline, small_frontier.schedule))
    assert set(max_clock_times_s(problem).tolist()) == {2.0}
    assert max_clock_baseline(problem, small_frontier.pipeline, 1).iteration_time_s == 12.0


def test_only_clocks_that_every_operation_has(
    make_profile: Callable[..., Profile], small_frontier: Frontier, make_problem: Callable[..., Any]
) -> None:
    rows = [
        (None, None, F, 1400, 1.0, 300.0),
        (None, None, F, 1200, 1.1, 280.0),
        (None, None, B, 1380, 2.0, 600.0),
        (None, None, B, 1200, 2.2, 560.0),
    ]
    problem = make_problem((make_profile(rows), small_frontier.pipeline, small_frontier.schedule))
    assert [one.sm_clock_mhz for one in single_clock_baselines(problem, 1)] == [1200]
    assert max_clock_baseline(problem, small_frontier.pipeline, 1).iteration_time_s == 9.0


def test_no_common_clock_leaves_no_single_clock(
    make_profile: Callable[..., Profile], small_frontier: Frontier, make_problem: Callable[..., Any]
) -> None:
    rows = [(None, None, F, 1400, 1.0, 300.0), (None, None, B, 1380, 2.0, 600.0)]
    problem = make_problem((make_profile(rows), small_frontier.pipeline, small_frontier.schedule))
    assert single_clock_baselines(problem, 1) == ()
