"""Spans at a clock, by hand: operations of 1 s back to back, one stage, an iteration of 6 s."""

from types import SimpleNamespace

import numpy as np
import pytest

from energyopt.planner.limits.dwell import shortest_dwell_s


@pytest.mark.parametrize(
    ("clocks", "expected_s"),
    [
        ([0, 0, 0, 0, 0, 0], np.inf),
        ([0, 0, 1, 1, 1, 1], 2.0),
        ([0, 1, 1, 1, 1, 1], 1.0),
        ([0, 0, 1, 1, 1, 0], 3.0),  # the last and the first two operations are one span
        ([0, 1, 2, 2, 2, 0], 1.0),
        ([0, 0, 0, 0, 0, 1], 1.0),
    ],
)
def test_spans(clocks: list[int], expected_s: float) -> None:
    table = SimpleNamespace(first=np.array([0, 6]))
    plans = np.array([clocks], dtype=np.int16).T
    start_s = np.arange(6.0)[:, None]
    assert shortest_dwell_s(table, plans, start_s, np.array([6.0]))[0] == expected_s  # type: ignore[arg-type]


def test_waiting_counts() -> None:
    """The clock stays while the stage waits: 0-1 s at the first clock, then until 9 s at the second."""
    table = SimpleNamespace(first=np.array([0, 2]))
    plans = np.array([[0], [1]], dtype=np.int16)
    start_s = np.array([[0.0], [5.0]])
    assert shortest_dwell_s(table, plans, start_s, np.array([9.0]))[0] == 4.0  # type: ignore[arg-type]
