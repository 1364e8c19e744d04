"""The aggregated problem beside the whole one: a bound of the same value, from prices of every operation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.certificate import certify
from energyopt.planner.formulations.aggregated import AggregatedRelaxedSolver
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.problem import Problem
from energyopt.planner.repeats import find_repeats

JOBS = [
    {"stages": 3, "microbatches": 24},
    {"stages": 3, "microbatches": 24, "p2p_time_s": 0.1},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 24},
    {"schedule": "interleaved-1f1b", "stages": 3, "microbatches": 24, "chunks_per_stage": 2},
    {"schedule": "interleaved-1f1b", "stages": 3, "microbatches": 25, "chunks_per_stage": 2},
]
SHARES = (0.0, 0.05, 0.3, 0.7, 1.0)


@pytest.fixture(params=range(len(JOBS)))
def problem(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_problem: Any) -> Problem:
    found: Problem = make_problem(random_job(request.param, most=5, style="smooth", **JOBS[request.param]))
    return found


def _solver(problem: Problem, ends: int) -> AggregatedRelaxedSolver:
    return AggregatedRelaxedSolver(problem, find_repeats(problem.schedule, problem.graph, ends))


def _deadlines_s(problem: Problem) -> list[float]:
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    free_s = HighsRelaxedSolver(problem).solve_free().makespan_s
    return [fastest_s + share * (free_s - fastest_s) for share in SHARES]


def _total_j(problem: Problem, relaxed: Any, deadline_s: float) -> float:
    return float(relaxed.effective_j + problem.static_power_w * deadline_s)


@pytest.mark.parametrize("ends", [3, 9])
def test_its_prices_prove_its_value_for_the_whole_problem(problem: Problem, ends: int) -> None:
    """Strong duality: what the certificate makes of the prices is the value of the linear program."""
    solver = _solver(problem, ends)
    for deadline_s in _deadlines_s(problem):
        relaxed = solver.solve(deadline_s)
        line = certify(problem, relaxed.edge_flow_w, relaxed.sink_flow_w)
        assert line.at(deadline_s) == pytest.approx(relaxed.effective_j, rel=1e-6)


@pytest.mark.parametrize("ends", [3, 9])
def test_it_is_a_lower_bound_and_loses_little(problem: Problem, ends: int) -> None:
    whole, solver = HighsRelaxedSolver(problem), _solver(problem, ends)
    for deadline_s in _deadlines_s(problem):
        exact_j = _total_j(problem, whole.solve(deadline_s), deadline_s)
        found_j = _total_j(problem, solver.solve(deadline_s), deadline_s)
        assert found_j <= exact_j * (1 + 1e-9)
        if ends == 9:  # (chunks + 1) x stages: what plans are made with
            assert found_j >= exact_j * (1 - 1e-4)


def test_where_nothing_repeats_it_is_the_whole_problem(problem: Problem) -> None:
    whole, solver = HighsRelaxedSolver(problem), _solver(problem, 25)
    for deadline_s in _deadlines_s(problem):
        assert solver.solve(deadline_s).effective_j == pytest.approx(
            whole.solve(deadline_s).effective_j, rel=1e-9
        )


def test_without_a_deadline_time_costs_static_power(problem: Problem) -> None:
    whole, found = HighsRelaxedSolver(problem).solve_free(), _solver(problem, 9).solve_free()
    assert _total_j(problem, found, found.makespan_s) == pytest.approx(
        _total_j(problem, whole, whole.makespan_s), rel=1e-5
    )


def test_members_of_a_class_share_durations_and_prices(problem: Problem) -> None:
    repeats = find_repeats(problem.schedule, problem.graph, 3)
    relaxed = AggregatedRelaxedSolver(problem, repeats).solve(_deadlines_s(problem)[2])
    for values, classes in (
        (relaxed.duration_s, repeats.op_class),
        (relaxed.edge_flow_w, repeats.edge_class),
    ):
        first = np.zeros(classes.max() + 1)
        first[classes] = values
        assert (values == first[classes]).all()
