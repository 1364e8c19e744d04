"""Mending plans that run everything at its fastest; their power is counted operation by operation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.power.ladders import ladders
from energyopt.planner.power.mending import Mended, Mender
from energyopt.planner.problem import Problem
from energyopt.planner.simulation import simulate


@pytest.fixture
def problem(clocked_job: Callable[..., Any], make_problem: Callable[..., Any]) -> Problem:
    found: Problem = make_problem(clocked_job(1, stages=3, microbatches=4))
    return found


def _mender(problem: Problem, cap_w: float, lasts_s: float = 0.0) -> tuple[Mender, np.ndarray]:
    steps = ladders([front.options for front in problem.fronts])
    return Mender(problem, steps, cap_w, lasts_s), steps.begin[problem.front_of]


def _peak_w(problem: Problem, plan: Mended, power_steps: Callable[..., Any]) -> float:
    options = [one for front in problem.fronts for one in front.options]
    rows = [options[place] for place in plan.places.tolist()]
    pipeline = type("Times", (), {"p2p_time_s": 0.0, "fixed_time_s": 0.0})
    assert simulate(problem.schedule, [row.time_s for row in rows]).iteration_time_s == pytest.approx(
        plan.makespan_s, rel=1e-12
    )
    return max(power_w for _, power_w in power_steps(problem.schedule, pipeline, rows, problem.wait_power_w))


@pytest.mark.parametrize("cap_w", [850.0, 750.0, 650.0, 550.0])
def test_a_mended_plan_obeys_and_a_hastened_one_is_no_slower(
    problem: Problem, cap_w: float, power_steps: Callable[..., Any]
) -> None:
    mender, fast = _mender(problem, cap_w)
    mended = mender.mend(fast)
    assert mended is not None
    hastened = mender.hasten(mended)
    assert problem.paths.makespan_s(problem.fastest_s) <= hastened.makespan_s <= mended.makespan_s
    for plan in (mended, hastened):
        assert _peak_w(problem, plan, power_steps) <= cap_w * (1 + 1e-9)


def test_a_plan_that_obeys_stays_as_it_is(problem: Problem) -> None:
    mender, fast = _mender(problem, 901.0)
    mended = mender.mend(fast)
    assert mended is not None and mended.places.tolist() == fast.tolist()


def test_where_no_step_is_left(problem: Problem) -> None:
    """Three GPUs wait at 240 W together."""
    mender, fast = _mender(problem, 241.0)
    assert mender.mend(fast) is None
