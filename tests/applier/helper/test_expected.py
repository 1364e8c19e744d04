"""When the board is read ahead of a recorded iteration."""

import pytest

from energyopt.applier.helper.expected import NextRecorded
from energyopt.applier.helper.sampling import TAIL_NS

MS = 1_000_000
TAIL_MS = TAIL_NS // MS


def after(every: int, starts_ms: list[float]) -> NextRecorded:
    following = NextRecorded(every)
    for number, at_ms in enumerate(starts_ms):
        following.step(int(at_ms * MS), recorded=number % every == 0)
    return following


def test_where_nothing_is_recorded_nothing_is_near() -> None:
    following = NextRecorded(0)
    assert not following.is_near(0)
    following.step(0, recorded=False)
    assert not following.is_near(10**15)


@pytest.mark.parametrize("every", [1, 10])
def test_the_first_is_recorded(every: int) -> None:
    assert NextRecorded(every).is_near(0)


def test_where_all_are_recorded_one_is_always_near() -> None:
    assert after(1, [0, 1000]).is_near(1001 * MS)


@pytest.mark.parametrize("starts_ms", [[0, 1000], [0, 1000, 2000], [0, 1000, 61_000, 62_000, 63_000]])
def test_it_is_near_a_tail_before_it_is_due(starts_ms: list[float]) -> None:
    """Every tenth is recorded, of 1 s each (one pause is forgotten), and a tenth of one may be made up for."""
    following = after(10, starts_ms)
    due_ms = starts_ms[-1] + (10 - len(starts_ms) + 1) * 1000
    assert not following.is_near(int((due_ms - TAIL_MS - 110) * MS))
    assert following.is_near(int((due_ms - TAIL_MS) * MS))
    assert following.is_near(int((due_ms + 60_000) * MS)), "and until it comes"


def test_after_it_has_begun_the_next_one_is_far() -> None:
    following = after(10, [1000 * number for number in range(11)])
    assert not following.is_near(10_500 * MS)
    assert following.is_near(19_700 * MS)


def test_before_durations_are_known() -> None:
    assert not after(10, [0]).is_near(10**15)
    assert after(2, [0]).is_near(5000 * MS) is False
    assert after(2, [0, 1000]).is_near(1800 * MS)
