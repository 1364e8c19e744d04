"""Woven plans keep to a period in the mean, at the least energy that mixing two combinations can have."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from energyopt.planner.problem import Problem
from energyopt.planner.realisation.stage_fronts import stage_fronts
from energyopt.planner.realisation.weaving import woven

STAGES, MICROBATCHES = 4, 60


@pytest.fixture(params=range(3))
def problem(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_problem: Any) -> Problem:
    job = random_job(request.param, most=6, style="noisy", stages=STAGES, microbatches=MICROBATCHES)
    found: Problem = make_problem(job)
    return found


def _combinations(problem: Problem, stage: int) -> np.ndarray:
    """Time and effective energy of every pair of a forward's and a backward's option on a stage, [C, 2]."""
    ops = problem.schedule.ops
    own = sorted({int(front) for op, front in zip(ops, problem.front_of, strict=True) if op.stage == stage})
    fronts = [
        list(zip(problem.fronts[one].time_s, problem.fronts[one].effective_j, strict=True)) for one in own
    ]
    return np.array([np.sum(pair, axis=0) for pair in product(*fronts)])


def _least_mean_j(combinations: np.ndarray, period_s: float) -> float:
    """The least mean energy of any two combinations, mixed so that they take at most a period in the mean."""
    found = [energy_j for time_s, energy_j in combinations if time_s <= period_s]
    for (fast_s, fast_j), (slow_s, slow_j) in product(combinations, repeat=2):
        if fast_s <= period_s < slow_s:
            share = (period_s - fast_s) / (slow_s - fast_s)
            found.append(fast_j + share * (slow_j - fast_j))
    return min(found)


def _costs(problem: Problem, plan: np.ndarray) -> np.ndarray:
    """Time and effective energy of each operation of a plan in topological order, as in `Schedule.ops`, [n, 2]."""
    found = np.empty((problem.n_ops, 2))
    for op, choice in zip(problem.graph.order.tolist(), plan.tolist(), strict=True):
        front = problem.fronts[problem.front_of[op]]
        found[op] = front.time_s[choice], front.effective_j[choice]
    return found


def _fastest_s(problem: Problem) -> list[float]:
    return [float(_combinations(problem, stage)[:, 0].min()) for stage in range(STAGES)]


def test_stages_keep_to_the_period_at_the_least_energy(problem: Problem) -> None:
    """But for one microbatch's worth: shares of microbatches are whole numbers."""
    period_s = max(_fastest_s(problem)) * 1.07  # no stage is full
    plan = woven(problem, problem.graph.order, stage_fronts(problem), np.array([period_s]))[:, 0]
    costs = _costs(problem, plan)
    for stage in range(STAGES):
        own = costs[[op.stage == stage for op in problem.schedule.ops]].sum(axis=0)
        combinations = _combinations(problem, stage)
        spread_s, spread_j = np.ptp(combinations, axis=0)
        assert own[0] <= MICROBATCHES * period_s + 2 * spread_s
        least_j = MICROBATCHES * _least_mean_j(combinations, period_s)
        assert own[1] == pytest.approx(least_j, rel=1e-12, abs=2 * spread_j)


def test_slower_options_are_given_out_evenly_along_waves(problem: Problem) -> None:
    """Of any run of waves, on whichever stage, no more are slow than its length times the share, but for one."""
    period_s = max(_fastest_s(problem)) * 1.07
    plan = woven(problem, problem.graph.order, stage_fronts(problem), np.array([period_s]))[:, 0]
    time_s = _costs(problem, plan)[:, 0]
    for stage, backward in product(range(STAGES), (False, True)):
        ops = enumerate(problem.schedule.ops)
        own = [
            (op.microbatch, index)
            for index, op in ops
            if (op.stage, op.kind != "forward") == (stage, backward)
        ]
        slow = (
            time_s[[index for _, index in sorted(own)]] > time_s[[index for _, index in own]].min()
        ).cumsum()
        share = slow[-1] / MICROBATCHES
        for length in (3, 7, 20):
            counts = slow[length:] - slow[:-length]
            assert np.ptp(counts) <= 1
            assert np.abs(counts - share * length).max() <= 1 + length / MICROBATCHES


def test_neighbours_of_a_full_stage_are_never_late(problem: Problem) -> None:
    fastest_s = _fastest_s(problem)
    period_s, full = max(fastest_s), int(np.argmax(fastest_s))
    plan = woven(problem, problem.graph.order, stage_fronts(problem), np.array([period_s]))[:, 0]
    time_s = _costs(problem, plan)[:, 0]
    for stage in (full - 1, full, full + 1):
        for microbatch in range(MICROBATCHES):
            own = [(op.stage, op.microbatch) == (stage, microbatch) for op in problem.schedule.ops]
            assert time_s[own].sum() <= period_s * (1 + 1e-9)
