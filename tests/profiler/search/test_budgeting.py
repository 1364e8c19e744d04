"""How many points are allowed, and when fronts count as still."""

from collections.abc import Callable

import pytest

from energyopt.profiler.search.budgeting import points_a_turn, points_allowed
from energyopt.profiler.search.outcome import Outcome
from energyopt.profiler.search.space import Space
from energyopt.profiler.search.stopping import QUIET_TURNS, STILL, Patience
from energyopt.schemas.errors import RequestError

MakeSpace = Callable[..., Space]


def test_a_tenth_if_nothing_is_asked_for(make_space: MakeSpace) -> None:
    assert points_allowed([make_space(), make_space()], None) == len(make_space()) * 2 // 10


def test_at_least_what_is_measured_first(make_space: MakeSpace) -> None:
    """Sequential execution at 10 clocks and four points of each partition."""
    small = make_space(sms=())
    assert len(small) == 40
    assert points_allowed([small, small], None) == 28
    assert points_allowed([small, small], 28) == 28
    with pytest.raises(
        RequestError, match=r"27 is too few: .* takes 20.* are 8 more; give at least 28 of 80"
    ):
        points_allowed([small, small], 27)


def test_never_more_than_there_are(make_space: MakeSpace) -> None:
    tiny = make_space(sms=(), clocks=(1400,))
    assert points_allowed([tiny], None) == points_allowed([tiny], 1000) == len(tiny) == 4


def test_a_turn_has_a_point_for_each_partition() -> None:
    assert (points_a_turn(1), points_a_turn(10)) == (4, 10)


def test_patience_ends_with_quiet_turns_in_a_row() -> None:
    patience = Patience()
    for gain in (STILL / 2, 2 * STILL, *[STILL / 2] * (QUIET_TURNS - 1)):
        patience.hear(gain)
        assert not patience.over
    patience.hear(STILL / 2)
    assert patience.over


def test_an_outcome_says_how_far_it_went_and_why_no_further() -> None:
    found = Outcome(why="the time is used up", measured=30, points=400, gain=0.01)
    assert str(found) == "search: 30 of 400 points measured (7.5%); the time is used up"
    assert found.metadata() == {
        "search": "the time is used up",
        "search_measured_points": 30,
        "search_points": 400,
        "search_share": 0.075,
        "search_expected_gain": 0.01,
    }
