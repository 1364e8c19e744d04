"""How long the helper waits, and what that costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.applier.helper.patience import patience_ns

MS = 1_000_000


@given(
    quiet_ns=st.integers(0, 10**15),
    span_ns=st.none() | st.integers(0, 10**13),
    lead_ns=st.integers(0, 10**11),
    sets=st.booleans(),
    look_in_ns=st.none() | st.integers(-(10**12), 20 * MS),
)
def test_the_wait_has_bounds(
    quiet_ns: int, span_ns: int | None, lead_ns: int, sets: bool, look_in_ns: int | None
) -> None:
    """Long enough not to spin, short enough for a reading every 20 ms and for the helper to be alive."""
    wait_ns = patience_ns(
        quiet_ns=quiet_ns, span_ns=span_ns, lead_ns=lead_ns, sets=sets, look_in_ns=look_in_ns
    )
    assert MS <= wait_ns <= (50 * MS if look_in_ns is None else max(look_in_ns, MS))


@pytest.mark.parametrize(
    ("quiet_ms", "span_ms", "lead_ms", "wait_ms"),
    [
        (0, None, 0, 1),  # anything may come: as often as it may be
        (0, 50, 0, 5),  # expected in 50 ms and asked for ahead: what comes early is seen late by a tenth
        (0, 50, 100, 5),
        (0, None, 12, 3),  # a change that takes 12 ms to land may be asked for 3 ms late
        (300, None, 0, 3),
        (60_000, None, 0, 50),  # evaluation has been going on for a minute
        (60_000, 50, 0, 50),
    ],
)
def test_what_it_follows(quiet_ms: int, span_ms: int | None, lead_ms: int, wait_ms: int) -> None:
    wait_ns = patience_ns(
        quiet_ns=quiet_ms * MS,
        span_ns=None if span_ms is None else span_ms * MS,
        lead_ns=lead_ms * MS,
        sets=True,
        look_in_ns=None,
    )
    assert wait_ns == wait_ms * MS


def test_who_only_watches_is_in_no_hurry() -> None:
    assert patience_ns(quiet_ns=0, span_ns=None, lead_ns=0, sets=False, look_in_ns=None) == 50 * MS


@pytest.mark.parametrize("quiet_ms", [0, 300, 60_000])
def test_readings_come_alike_with_a_plan_and_without_one(quiet_ms: int) -> None:
    """A run's saving is the difference of two energies: both are read in the same way."""
    waits = {
        patience_ns(quiet_ns=quiet_ms * MS, span_ns=50 * MS, lead_ns=0, sets=sets, look_in_ns=13 * MS)
        for sets in (False, True)
    }
    assert len(waits) == 1
    assert waits.pop() <= 13 * MS
