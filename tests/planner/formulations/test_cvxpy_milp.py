"""The exact formulation against the enumeration of every plan, and what it says when time runs out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.formulations.cvxpy_milp import solve_exact
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.schemas.errors import SolverError

TINY = [  # at most 4,096 plans each
    {"most": 4, "stages": 3, "microbatches": 1},
    {"most": 2, "stages": 2, "microbatches": 3},
    {"most": 2, "stages": 3, "microbatches": 2, "p2p_time_s": 0.1},
    {"most": 2, "schedule": "gpipe", "stages": 3, "microbatches": 2},
    {"most": 2, "schedule": "zb-h1"},
    {"most": 3, "schedule": "interleaved-1f1b", "microbatches": 1, "stages": 1, "chunks_per_stage": 2},
]


@pytest.mark.parametrize("style", ["smooth", "noisy", "round"])
@pytest.mark.parametrize("settings", TINY)
def test_it_finds_the_best_of_all_plans(
    settings: dict[str, Any],
    style: str,
    random_job: Callable[..., Any],
    make_problem: Callable[..., Any],
    enumerate_plans: Callable[..., Any],
) -> None:
    job = random_job(7, style=style, **settings)
    problem, plans = make_problem(job), enumerate_plans(job)
    for deadline_s in np.quantile([plan.time_s for plan in plans], [0.0, 0.1, 0.5, 1.0], method="nearest"):
        best_j = min(plan.effective_j for plan in plans if plan.time_s <= deadline_s * (1 + 1e-9))
        found = solve_exact(problem, float(deadline_s))
        scale_j = max(plan.energy_j for plan in plans)
        assert found.proven
        assert found.effective_j == pytest.approx(best_j, abs=1e-9 * scale_j)
        assert found.lower_bound_j == pytest.approx(best_j, abs=1e-7 * scale_j)
        assert found.makespan_s <= deadline_s * (1 + 1e-9)


def test_it_lies_above_the_relaxed_problem(
    random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(random_job(3, most=5, style="noisy", stages=3, microbatches=3))
    deadline_s = 1.1 * problem.paths.makespan_s(problem.fastest_s)
    relaxed_j = HighsRelaxedSolver(problem).solve(deadline_s).effective_j
    assert relaxed_j <= solve_exact(problem, deadline_s).effective_j + 1e-9


@pytest.mark.parametrize("factor", [0.0, 0.999, -1.0, math.nan])
def test_an_impossible_deadline_is_refused(
    factor: float, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(random_job(0))
    with pytest.raises(SolverError, match="the fastest options need"):
        solve_exact(problem, factor * problem.paths.makespan_s(problem.fastest_s))


def test_a_time_limit_is_no_solution(
    random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    """Without any time there is no plan, and that is said."""
    problem = make_problem(random_job(4, most=12, style="noisy", stages=4, microbatches=8))
    deadline_s = 1.07 * problem.paths.makespan_s(problem.fastest_s)
    with pytest.raises(SolverError, match=r"found no plan for a deadline of .* within 0 s; allow it more"):
        solve_exact(problem, deadline_s, time_limit_s=0.0)


def test_a_search_cut_short_says_so(real_job: Callable[..., Any], make_problem: Callable[..., Any]) -> None:
    problem = make_problem(real_job("a40", microbatches=2))
    deadline_s = 1.03 * problem.paths.makespan_s(problem.fastest_s)
    try:
        found = solve_exact(problem, deadline_s, time_limit_s=1.0)
    except SolverError as error:
        assert "allow it more" in str(error)  # a slow machine has no plan yet
        return
    assert found.lower_bound_j <= found.effective_j + 1e-6 * abs(found.effective_j)
    apart_j = found.effective_j - found.lower_bound_j
    assert not found.proven or apart_j <= 1e-4 * abs(found.effective_j)  # a fast machine may finish
    assert found.makespan_s <= deadline_s * (1 + 1e-9)
