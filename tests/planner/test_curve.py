"""The lower-bound curve: convex, falling to its last point, and exact where it was solved."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from energyopt.planner.curve import Curve, best_edp, trace_curve
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.problem import Problem

JOBS = [
    {"stages": 3, "microbatches": 6},
    {"stages": 1, "microbatches": 3},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 4, "p2p_time_s": 0.1},
    {"stages": 2, "microbatches": 4, "wait_power_w": 0.0},
]

Trace = Callable[..., tuple[Problem, Curve]]


@pytest.fixture
def trace(random_job: Callable[..., Any], make_problem: Callable[..., Problem]) -> Trace:
    def run(seed: int = 0, slack: float = 1.05, count: int = 20, **settings: Any) -> tuple[Problem, Curve]:
        problem = make_problem(random_job(seed, **({"most": 5, "style": "noisy"} | settings)))
        baseline_s = slack * problem.paths.makespan_s(problem.fastest_s)
        return problem, trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, count)

    return run


@pytest.mark.parametrize("settings", JOBS)
def test_it_is_convex_and_falls(settings: dict[str, Any], trace: Trace) -> None:
    _, curve = trace(**settings)
    time_s = np.array([point.deadline_s for point in curve.points])
    bound_j = np.array([point.bound_j for point in curve.points])
    chords_w = np.diff(bound_j) / np.diff(time_s)
    tolerance_w = 1e-6 * np.abs(chords_w).max()
    assert (np.diff(time_s) > 0).all()
    assert (chords_w <= tolerance_w).all()
    assert (np.diff(chords_w) >= -tolerance_w).all()
    assert (np.diff([point.slope_w for point in curve.points]) >= -tolerance_w).all()


@pytest.mark.parametrize("settings", JOBS)
def test_it_reaches_from_the_fastest_to_the_least_energy(settings: dict[str, Any], trace: Trace) -> None:
    problem, curve = trace(**settings)
    assert curve.points[0].deadline_s == problem.paths.makespan_s(problem.fastest_s)
    free = HighsRelaxedSolver(problem).solve_free()
    least_j = free.effective_j + problem.static_power_w * free.makespan_s
    assert curve.points[-1].bound_j == pytest.approx(least_j, rel=1e-9)


@pytest.mark.parametrize("settings", JOBS)
def test_a_bound_is_exact_where_it_was_solved(settings: dict[str, Any], trace: Trace) -> None:
    problem, curve = trace(**settings)
    for point in curve.points:
        solved_j = point.relaxed.effective_j + problem.static_power_w * point.deadline_s
        assert curve.bound_j(point.deadline_s) == pytest.approx(point.bound_j, rel=1e-9)
        assert point.bound_j == pytest.approx(solved_j, rel=1e-9)


@pytest.mark.parametrize("settings", JOBS)
def test_tangents_and_chords_enclose_the_optimum(settings: dict[str, Any], trace: Trace) -> None:
    problem, curve = trace(**settings)
    solver = HighsRelaxedSolver(problem)
    for share in np.linspace(0.0, 1.0, 12):
        first_s, last_s = curve.points[0].deadline_s, curve.points[-1].deadline_s
        deadline_s = float(first_s + share * (last_s - first_s))
        true_j = solver.solve(deadline_s).effective_j + problem.static_power_w * deadline_s
        assert curve.bound_j(deadline_s) <= true_j * (1 + 1e-9)
        assert curve.upper_j(np.array([deadline_s]))[0] >= true_j * (1 - 1e-9)


@pytest.mark.parametrize("settings", JOBS)
def test_no_point_has_a_lower_energy_delay_product(settings: dict[str, Any], trace: Trace) -> None:
    """Neither on the chords nor on the curve itself, sampled by solving in between."""
    problem, curve = trace(**settings)
    best = best_edp(curve)
    least = best.deadline_s * best.bound_j
    time_s = np.linspace(curve.points[0].deadline_s, curve.points[-1].deadline_s, 2001)
    assert least <= (time_s * curve.upper_j(time_s)).min() * (1 + 1e-12)
    solver = HighsRelaxedSolver(problem)
    for deadline_s in time_s[::100].tolist():
        true_j = solver.solve(deadline_s).effective_j + problem.static_power_w * deadline_s
        assert least <= deadline_s * true_j * (1 + 1e-5)


def test_the_baseline_is_solved_where_it_lies_between(trace: Trace) -> None:
    problem, curve = trace(stages=3, microbatches=6, slack=1.05)
    wanted_s = 1.05 * problem.paths.makespan_s(problem.fastest_s)
    assert any(point.deadline_s == wanted_s for point in curve.points)


@pytest.mark.parametrize("slack", [1.0, 50.0])
def test_a_baseline_outside_is_not(slack: float, trace: Trace) -> None:
    problem, curve = trace(stages=3, microbatches=6, slack=slack)
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    assert [point.deadline_s for point in curve.points].count(fastest_s) == 1
    assert curve.points[-1].deadline_s < 50 * fastest_s


@pytest.mark.parametrize("settings", [{"most": 1}, {"wait_power_w": 1e5, "stages": 3, "style": "smooth"}])
def test_a_single_point_where_the_fastest_is_the_cheapest(settings: dict[str, Any], trace: Trace) -> None:
    """One option each, or waiting so dear that only the longest path counts."""
    problem, curve = trace(**settings)
    assert [point.deadline_s for point in curve.points] == [problem.paths.makespan_s(problem.fastest_s)]


def test_no_deadline_is_solved_twice(trace: Trace) -> None:
    _, curve = trace(stages=2, microbatches=3)
    before = len(curve.points)
    curve.solve([point.deadline_s for point in curve.points])
    assert len(curve.points) == before


@pytest.mark.parametrize("settings", JOBS)
def test_two_solvers_side_by_side_prove_what_one_does(
    settings: dict[str, Any], random_job: Callable[..., Any], make_problem: Callable[..., Problem]
) -> None:
    problem = make_problem(random_job(0, **({"most": 5, "style": "noisy"} | settings)))
    baseline_s = 1.05 * problem.paths.makespan_s(problem.fastest_s)
    one = trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, 20)
    two = trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, 20, HighsRelaxedSolver(problem))
    for first, second in ((one, two), (two, one)):
        for point in first.points:
            assert second.bound_j(point.deadline_s) <= point.bound_j * (1 + 1e-9)
    ends = [[curve.points[0].deadline_s, curve.points[-1].deadline_s] for curve in (one, two)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)
    assert len(two.points) == pytest.approx(len(one.points), abs=4)


@pytest.mark.parametrize("settings", JOBS)
def test_what_is_not_known_is_solved(settings: dict[str, Any], trace: Trace) -> None:
    """Between solved deadlines where chords lie above tangents, and always beyond the last."""
    _, curve = trace(count=5, **settings)
    known = [point.deadline_s for point in curve.points]
    curve.solve_unknown(known, 1e-9)
    assert [point.deadline_s for point in curve.points] == known
    between_s = [(one + other) / 2 for one, other in pairwise(known)]
    wide = [at_s for at_s in between_s if curve.upper_j(np.array([at_s]))[0] > curve.bound_j(at_s) * 1.001]
    curve.solve_unknown([*between_s, known[-1] * 1.1], 1e-3)
    assert sorted([*known, *wide, known[-1] * 1.1]) == [point.deadline_s for point in curve.points]
