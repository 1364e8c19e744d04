"""Floors by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.power.floor import floor_w, least_time_s
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline


@pytest.fixture
def problem(
    small_frontier: Frontier, make_profile: Callable[..., Any], make_problem: Callable[..., Any]
) -> Any:
    """The small job: two stages, two microbatches, 100 W waiting, 300 W or 200 W running."""
    costs = {
        OpKind.FORWARD: ((1400, 1.0, 300.0), (1000, 1.25, 250.0)),
        OpKind.BACKWARD: ((1400, 2.0, 600.0), (1000, 2.5, 500.0)),
    }
    rows = [(stage, 0, kind, *cost) for stage in (0, 1) for kind in costs for cost in costs[kind]]
    job = make_profile(rows, 100.0), Pipeline(stages=2, microbatches=2), small_frontier.schedule
    return make_problem(job)


def test_the_floor_of_the_small_job(problem: Any) -> None:
    """One stage runs at 200 W or more while the other draws 100 W: 300 W. On average more has to be drawn.

    Least effective energy: 4 x (250 - 125) + 4 x (500 - 250) = 1500 J, in at most 11.25 s: 200 W + 133.3 W.
    """
    assert floor_w(problem) == pytest.approx(200 + 1500 / 11.25)
    assert floor_w(problem, lasts_s=1.5) == pytest.approx(300.0)
    assert floor_w(problem, lasts_s=10.0) == pytest.approx(200.0)  # no operation lasts that long


def test_operations_that_draw_less_than_waiting(
    make_profile: Callable[..., Any], make_problem: Callable[..., Any], small_frontier: Frontier
) -> None:
    """Stage 0 draws 50 W in its forward and waits at 100 W; stage 1 draws 100 W or more, 150 W in its backward."""
    costs = {(0, OpKind.FORWARD): 50.0, (0, OpKind.BACKWARD): 120.0, (1, OpKind.FORWARD): 110.0}
    costs[1, OpKind.BACKWARD] = 150.0
    rows = [(stage, 0, kind, 1000, 1.0, power_w) for (stage, kind), power_w in costs.items()]
    job = make_profile(rows, 100.0), Pipeline(stages=2, microbatches=2), small_frontier.schedule
    assert floor_w(make_problem(job), lasts_s=0.5) == pytest.approx(50 + 100 + 70)  # stage 0's backward


def test_the_least_time_under_a_cap(small_frontier: Frontier) -> None:
    """Point 0 is bounded by 3960 J, 1800 J of them static: at 500 W, 2160 J / (500 W - 200 W)."""
    capped = replace(small_frontier, peak_power_cap_w=500.0)
    assert least_time_s(capped) == pytest.approx(7.2)
    assert least_time_s(replace(capped, peak_lasts_s=0.1)) is None
    assert least_time_s(replace(capped, peak_power_cap_w=150.0)) is None
    assert least_time_s(small_frontier) is None
