"""Savings as a table; the numbers follow from the job in tests/conftest.py."""

from dataclasses import replace

import pytest

from energyopt.planner.views.frontier import frontier_tables
from energyopt.planner.views.savings import savings_table
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKey, OpKind

FIRST = OpKey(0, 0, OpKind.FORWARD)


@pytest.fixture
def overlapped(small_frontier: Frontier) -> Frontier:
    """The small frontier, whose slow forwards of stage 0 cut their microbatch.

    Of the 225 J that point 0 saves of 4200 J, by invention 42 J are saved by waiting, and so on.
    """
    fast, slow = small_frontier.options[FIRST]
    options = small_frontier.options | {FIRST: (fast, replace(slow, nanobatches=2))}
    points = tuple(
        replace(
            point,
            saved_waiting_j=42.0,
            saved_clock_j=-21.0,
            saved_overlap_j=84.0,
            saved_sm_share_j=4200.0 - point.energy_j - 105.0,
        )
        for point in small_frontier.points
    )
    return replace(small_frontier, options=options, points=points)


def test_shares_of_the_baseline(overlapped: Frontier) -> None:
    """42 / 4200 = 1 %, 21 / 4200 = 0.5 %, 84 / 4200 = 2 %, (225 - 105) / 4200 = 2.857 %, 225 / 4200 = 5.357 %."""
    table = savings_table(overlapped)
    assert table is not None
    assert "2 GPUs" in table.title
    first = dict(zip(table.columns, table.rows[0], strict=True))
    assert first == {
        "point": "0",
        "time_s": "9.0000",
        "saved_j": "225.0",
        "waiting": "-1.00 %",
        "clock": "+0.50 %",
        "overlap": "-2.00 %",
        "SM share": "-2.86 %",
        "saved": "-5.36 %",
        "in nanobatches": "1 of 8",  # of the forwards of stage 0 the second is slow
    }
    assert [row[-1] for row in table.rows] == ["1 of 8", "1 of 8", "2 of 8"]


def test_it_is_shown_with_the_frontier(overlapped: Frontier, small_frontier: Frontier) -> None:
    assert savings_table(overlapped) in frontier_tables(overlapped)
    assert len(frontier_tables(overlapped)) == len(frontier_tables(small_frontier)) + 1


def test_none_where_every_option_is_plain_or_nobody_found_out(
    overlapped: Frontier, small_frontier: Frontier
) -> None:
    assert savings_table(replace(overlapped, options=small_frontier.options)) is None
    unknown = tuple(replace(point, saved_waiting_j=None) for point in overlapped.points)
    assert savings_table(replace(overlapped, points=unknown)) is None
