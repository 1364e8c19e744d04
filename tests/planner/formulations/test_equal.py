"""The hand-built arrays and the problem as written on paper have the same optimum, and both are optimal.

Optimal means: durations that meet the deadline, prices that bound every plan, and no gap between the two. Which
optimum a solver returns does not matter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.certificate import certify
from energyopt.planner.formulations.cvxpy_lp import CvxpyRelaxedSolver
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.formulations.interface import Relaxed
from energyopt.planner.problem import Problem
from energyopt.schemas.errors import SolverError

SOLVERS = [HighsRelaxedSolver, CvxpyRelaxedSolver]
JOBS = {
    "gpipe": {"schedule": "gpipe", "stages": 3, "microbatches": 4},
    "1f1b": {"schedule": "1f1b", "stages": 3, "microbatches": 5},
    "fewer microbatches than stages": {"schedule": "1f1b", "stages": 4, "microbatches": 2},
    "interleaved": {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
    "zb-h1": {"schedule": "zb-h1", "stages": 3, "microbatches": 3},
    "p2p": {"schedule": "1f1b", "stages": 3, "microbatches": 3, "p2p_time_s": 0.2},
    "one stage": {"schedule": "1f1b", "stages": 1, "microbatches": 1},
}


@pytest.mark.parametrize("settings", JOBS.values(), ids=JOBS.keys())
@pytest.mark.parametrize("most", [1, 2, 3])
def test_both_find_the_optimum(
    settings: dict[str, Any], most: int, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    for seed in range(2):
        problem = make_problem(random_job(seed, most=most, style="noisy" if seed else "smooth", **settings))
        _check_equal(problem, (1.0, 1.15, 4.0))


def test_both_find_the_optimum_of_a_real_profile(
    real_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    _check_equal(make_problem(real_job("a40")), (1.0, 1.04))


def _check_equal(problem: Problem, slacks: tuple[float, ...]) -> None:
    solvers = [solver(problem) for solver in SOLVERS]
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    for slack in slacks:
        deadline_s = fastest_s * slack
        ours, papers = (solver.solve(deadline_s) for solver in solvers)
        scale_j = problem.static_power_w * deadline_s + abs(papers.effective_j)
        assert ours.effective_j - papers.effective_j == pytest.approx(0.0, abs=1e-7 * scale_j)
        for relaxed in (ours, papers):
            _check_optimal(problem, relaxed, deadline_s, scale_j)


def _check_optimal(problem: Problem, relaxed: Relaxed, deadline_s: float, scale_j: float) -> None:
    hull_j = _hull_energy_j(problem, relaxed.duration_s)
    assert problem.paths.makespan_s(relaxed.duration_s) <= deadline_s * (1 + 1e-7)
    assert hull_j == pytest.approx(relaxed.effective_j, abs=1e-7 * scale_j)
    _check_prices(problem, relaxed)
    bound_j = certify(problem, relaxed.edge_flow_w, relaxed.sink_flow_w).at(deadline_s)
    assert bound_j == pytest.approx(hull_j, abs=1e-7 * scale_j)


def _check_prices(problem: Problem, relaxed: Relaxed) -> None:
    """At least 0, and what enters an operation leaves it; only the first operations may have more leaving."""
    graph, n = problem.graph, problem.n_ops
    assert relaxed.edge_flow_w.min(initial=0.0) >= 0
    assert relaxed.sink_flow_w.min() >= 0
    assert not relaxed.sink_flow_w[graph.tail].any()
    leaving = np.bincount(graph.tail, relaxed.edge_flow_w, n) + relaxed.sink_flow_w
    entering = np.bincount(graph.head, relaxed.edge_flow_w, n)
    tolerance_w = 1e-6 * (1 + relaxed.sink_flow_w.sum())
    assert (leaving - entering >= -tolerance_w).all()
    has_before = np.bincount(graph.head, minlength=n) > 0
    assert np.abs((leaving - entering)[has_before]).max(initial=0.0) <= tolerance_w


def _hull_energy_j(problem: Problem, duration_s: Any) -> float:
    """Effective energy of durations on the hulls, read off the measured points."""
    fronts = [problem.fronts[index] for index in problem.front_of]
    return sum(
        float(np.interp(time_s, front.time_s[front.hull], front.effective_j[front.hull]))
        for time_s, front in zip(duration_s, fronts, strict=True)
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("wait_power_w", [0.0, 20.0, 80.0])
def test_at_the_least_energy_a_second_is_worth_the_static_power(
    solver: Any, wait_power_w: float, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(random_job(5, most=4, wait_power_w=wait_power_w, stages=3, microbatches=4))
    free = solver(problem).solve_free()
    assert free.sink_flow_w.sum() == pytest.approx(3 * wait_power_w, abs=1e-6)
    total_j = free.effective_j + problem.static_power_w * free.makespan_s
    for slack in (0.9, 0.97, 1.03, 1.2):
        deadline_s = max(free.makespan_s * slack, problem.paths.makespan_s(problem.fastest_s))
        other = solver(problem).solve(deadline_s)
        assert total_j <= (other.effective_j + problem.static_power_w * deadline_s) * (1 + 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_deadline_below_the_fastest_is_refused(
    solver: Any, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(random_job(0))
    with pytest.raises(SolverError, match="no optimum for a deadline of"):
        solver(problem).solve(0.99 * problem.paths.makespan_s(problem.fastest_s))


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("solver", SOLVERS)
def test_units_do_not_matter(
    solver: Any,
    factor: float,
    random_job: Callable[..., Any],
    make_problem: Callable[..., Any],
    make_profile: Callable[..., Any],
) -> None:
    """All energies times a factor, wait power too: the optimum is that many times as high."""
    job = random_job(2, most=4, stages=2, microbatches=3)
    rows = [
        (row.stage, row.chunk, row.op, row.sm_clock_mhz, row.time_s, row.energy_j * factor)
        for row in job.profile.rows
    ]
    scaled = job._replace(profile=make_profile(rows, wait_power_w=80.0 * factor))
    problem = make_problem(job)
    deadline_s = 1.1 * problem.paths.makespan_s(problem.fastest_s)
    expected_j = solver(problem).solve(deadline_s).effective_j
    found_j = solver(make_problem(scaled)).solve(deadline_s).effective_j
    assert found_j == pytest.approx(expected_j * factor, rel=1e-9)
