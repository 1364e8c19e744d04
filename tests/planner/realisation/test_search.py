"""The pool and the population: plans stay inside their windows, and rounds never make one worse."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from energyopt.planner.curve import Curve, trace_curve
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.placement import choose_plans, grid_windows, point_windows
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.pool import Pool, Workshop, fill_pool
from energyopt.planner.realisation.population import Population
from energyopt.planner.realisation.rounding import Rounder
from energyopt.planner.realisation.seeds import seed_plans
from energyopt.planner.realisation.variation import Variation
from energyopt.planner.realisation.windows import Judge

JOBS = {
    "1f1b": {"stages": 3, "microbatches": 12},
    "noisy": {"stages": 3, "microbatches": 5, "style": "noisy"},
    "p2p": {"stages": 3, "microbatches": 4, "p2p_time_s": 0.1},
    "ties": {"stages": 2, "microbatches": 3, "style": "round"},
    "one option": {"stages": 3, "microbatches": 3, "most": 1},
    "smallest": {"stages": 1, "microbatches": 1, "most": 2},
}


class Search(NamedTuple):
    problem: Problem
    curve: Curve
    workshop: Workshop
    pool: Pool
    baseline_s: float


@pytest.fixture(scope="module", params=JOBS.values(), ids=JOBS.keys())
def search(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_problem: Any) -> Search:
    problem = make_problem(random_job(4, **({"most": 6} | request.param)))
    baseline_s = 1.02 * problem.paths.makespan_s(problem.fastest_s)
    curve = trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, 20)
    rounder = Rounder(problem, curve)
    workshop = Workshop(
        rounder=rounder,
        variation=Variation(problem, rounder.sweeper.order),
        judge=Judge(curve, problem.static_power_w),
    )
    windows = grid_windows(problem, curve, baseline_s, 6)
    pool = fill_pool(workshop, windows, seed_plans(problem, rounder, 20), 8)
    return Search(problem, curve, workshop, pool, baseline_s)


def _check_plans(search: Search, pool: Pool) -> None:
    """Makespan and energy are those of the choices, and a plan lies inside its window."""
    sweeper = search.workshop.rounder.sweeper
    found = np.isfinite(pool.gap)
    makespan_s = sweeper.makespan_s(sweeper.time_s(pool.choices))
    assert np.allclose(makespan_s[found], pool.makespan_s[found], rtol=1e-12)
    assert np.allclose(sweeper.effective_j(pool.choices)[found], pool.effective_j[found], rtol=1e-9)
    assert (makespan_s[found] <= pool.windows.high_s[found] * (1 + 1e-12)).all()
    free = found & ~pool.windows.fixed
    assert (makespan_s[free] >= pool.windows.low_s[free] * (1 - 1e-12)).all()


def test_pool_plans_meet_their_deadlines(search: Search) -> None:
    _check_plans(search, search.pool)


def test_the_fastest_makespan_has_a_plan(search: Search) -> None:
    fastest_s = search.problem.paths.makespan_s(search.problem.fastest_s)
    at = np.flatnonzero(search.pool.windows.high_s == fastest_s)
    assert search.pool.makespan_s[at].tolist() == [fastest_s]
    assert np.isfinite(search.pool.gap[at]).all()


def test_windows_cover_the_curve(search: Search) -> None:
    windows = search.pool.windows
    assert (np.diff(windows.high_s) > 0).all()
    assert windows.high_s[0] == search.curve.points[0].deadline_s
    assert windows.high_s[-1] > search.curve.points[-1].deadline_s
    moving = ~windows.fixed[1:]
    assert moving.any()
    assert (windows.low_s[1:][moving] <= windows.high_s[:-1][moving]).all()
    assert (windows.low_s[windows.fixed] == windows.high_s[windows.fixed]).all()


def test_chosen_plans_are_found_ones_and_no_more_than_asked(search: Search) -> None:
    for count in (4, 10, 1000):
        chosen = choose_plans(search.pool, search.workshop.judge, search.curve, count)
        assert np.isfinite(search.pool.gap[chosen]).all()
        assert len(set(chosen.tolist())) == len(chosen) <= count


def test_a_population_never_gets_worse(search: Search) -> None:
    chosen = choose_plans(search.pool, search.workshop.judge, search.curve, 8)
    population = Population(search.workshop, point_windows(search.pool, chosen), search.pool, 6)
    gap = population.best().gap
    for _ in range(8):
        population.breed(4, 16)
        best = population.best()
        assert (best.gap <= gap).all()
        _check_plans(search, best)
        gap = best.gap


def test_without_seeds_or_for_impossible_deadlines_nothing_breaks(search: Search) -> None:
    """A deadline that nothing meets costs infinitely much; it is not served by a late plan."""
    rounder = search.workshop.rounder
    none = np.zeros((search.problem.n_ops, 0), dtype=np.int16), np.zeros(0)
    fill_pool(search.workshop, search.pool.windows, none, 4)
    deadline_s = np.full(4, 0.9 * search.curve.points[0].deadline_s)
    plans = np.zeros((search.problem.n_ops, 4), dtype=np.int16)
    factor = np.zeros(4, dtype=np.int64)
    for may_shrink in (np.zeros(4, dtype=np.bool_), np.ones(4, dtype=np.bool_)):
        rounded = rounder.repair(plans, deadline_s, factor, factor, may_shrink)
        assert np.isinf(rounded.effective_j).all()
