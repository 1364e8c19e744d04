"""Sweeps keep windows and deadlines, and table look-ups equal a search for the best option."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.problem import Problem
from energyopt.planner.realisation.price_tables import FACTORS, price_tables
from energyopt.planner.realisation.sweeps import Sweeper

JOBS = [
    {"stages": 3, "microbatches": 4},
    {"schedule": "zb-h1", "stages": 2, "microbatches": 3, "p2p_time_s": 0.1},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
]
PLANS = 12


@pytest.fixture(params=JOBS, ids=lambda one: one.get("schedule", "1f1b"))
def problem(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_problem: Any) -> Problem:
    found: Problem = make_problem(random_job(3, most=6, style="noisy", **request.param))
    return found


@pytest.fixture
def tables(problem: Problem) -> Any:
    """One anchor with random prices, as large as the slopes of the fronts."""
    price_w = np.random.default_rng(0).uniform(0, 500, (problem.n_ops, 1))
    return price_tables(problem, Sweeper(problem).front_of, price_w)


def _windows(problem: Problem, slack: float) -> tuple[Any, Any, Any]:
    """(sweeper, latest finishes with every operation at its fastest, deadlines)."""
    sweeper = Sweeper(problem)
    fastest_s = np.repeat(problem.fastest_s[sweeper.order][:, None], PLANS, axis=1)
    deadline_s = sweeper.makespan_s(fastest_s) * np.linspace(1.0, slack, PLANS)
    return sweeper, sweeper.latest_finish_s(fastest_s, deadline_s), deadline_s


def _rows(problem: Problem, tables: Any, seed: int = 1) -> Any:
    factors = np.random.default_rng(seed).integers(0, len(FACTORS), (problem.n_ops, PLANS))
    return tables.rows(np.zeros(PLANS, dtype=np.int64), factors)


def test_forward_keeps_its_windows(problem: Problem, tables: Any) -> None:
    """No operation starts before the ones before it have ended, and none ends too late, whatever it prefers."""
    sweeper, latest_s, deadline_s = _windows(problem, 1.5)
    choices, _, finish_s = sweeper.forward(latest_s, tables, _rows(problem, tables))
    tolerance_s = 1e-9 * deadline_s
    assert (finish_s <= latest_s + tolerance_s).all()
    assert (sweeper.makespan_s(sweeper.time_s(choices)) <= deadline_s + tolerance_s).all()
    assert np.allclose(sweeper.makespan_s(sweeper.time_s(choices)), finish_s.max(axis=0), rtol=1e-12)


def test_backward_keeps_its_windows(problem: Problem, tables: Any) -> None:
    sweeper, latest_s, deadline_s = _windows(problem, 1.5)
    choices, _, finish_s = sweeper.forward(latest_s, tables, _rows(problem, tables))
    earliest_s = finish_s - sweeper.time_s(choices)
    choices, start_s, _ = sweeper.backward(earliest_s, deadline_s, tables, _rows(problem, tables, 2))
    tolerance_s = 1e-9 * deadline_s
    assert (start_s >= earliest_s - tolerance_s).all()
    assert (sweeper.makespan_s(sweeper.time_s(choices)) <= deadline_s + tolerance_s).all()


def test_factor_0_takes_the_last_option_that_fits(problem: Problem, tables: Any) -> None:
    """Fronts are sorted: the slowest option that fits is the cheapest."""
    sweeper, latest_s, deadline_s = _windows(problem, 1.3)
    rows = tables.rows(np.zeros(PLANS, dtype=np.int64), np.zeros(PLANS, dtype=np.int64))
    choices, _, finish_s = sweeper.forward(latest_s, tables, rows)
    start_s = finish_s - sweeper.time_s(choices)
    for op, front in enumerate(sweeper.front_of):
        time_s = problem.fronts[front].time_s
        for plan in range(PLANS):
            fits = start_s[op, plan] + time_s <= latest_s[op, plan] + 1e-9 * deadline_s[plan]
            assert choices[op, plan] == max(np.flatnonzero(fits))


def test_an_impossible_window_takes_the_fastest_and_runs_late(problem: Problem, tables: Any) -> None:
    sweeper, latest_s, _ = _windows(problem, 1.0)
    rows = tables.rows(np.zeros(PLANS, dtype=np.int64), np.zeros(PLANS, dtype=np.int64))
    choices, _, finish_s = sweeper.forward(latest_s - 1e6, tables, rows)
    assert not choices.any()
    assert np.allclose(finish_s.max(axis=0), problem.paths.makespan_s(problem.fastest_s))


def test_price_tables_hold_the_best_option(problem: Problem) -> None:
    """Least effective energy + factor x price x time among the fastest k, the slower one in a tie."""
    sweeper = Sweeper(problem)
    price_w = np.random.default_rng(5).uniform(0, 800, (problem.n_ops, 3))
    tables = price_tables(problem, sweeper.front_of, price_w)
    for op, index in enumerate(sweeper.front_of):
        front = problem.fronts[index]
        for anchor in range(3):
            for factor, weight in enumerate(FACTORS):
                cost_j = front.effective_j + weight * price_w[op, anchor] * front.time_s
                for fitting in range(1, len(cost_j) + 1):
                    row = int(tables.rows(np.int64(anchor), np.int64(factor)))  # type: ignore[arg-type]
                    best = tables.best[op][row + fitting]
                    assert best < fitting
                    assert cost_j[best] <= cost_j[:fitting].min() + 1e-12 * np.abs(cost_j).max()


def test_makespans_and_energies_are_those_of_the_problem(problem: Problem) -> None:
    sweeper, chance = Sweeper(problem), np.random.default_rng(4)
    counts = [len(problem.fronts[front].time_s) for front in problem.front_of]
    choices = chance.integers(0, counts, (PLANS, problem.n_ops)).T
    time_s, effective_j = np.empty(choices.shape), np.zeros(PLANS)
    for op, front in enumerate(problem.front_of):
        time_s[op] = problem.fronts[front].time_s[choices[op]]
        effective_j += problem.fronts[front].effective_j[choices[op]]
    ordered = choices[sweeper.order]
    assert np.allclose(
        sweeper.makespan_s(sweeper.time_s(ordered)), problem.paths.makespans_s(time_s), rtol=1e-12
    )
    assert np.allclose(sweeper.effective_j(ordered), effective_j, rtol=1e-9)
