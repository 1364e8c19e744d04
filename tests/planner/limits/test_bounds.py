"""Bounds hold for every plan, whatever the prices, and prices from the relaxed problem make them tight enough."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from energyopt.planner.formulations.cvxpy_shared import solve_shared
from energyopt.planner.formulations.shared import build_shared
from energyopt.planner.formulations.shared_highs import SharedClockSolver
from energyopt.planner.limits.bounds import change_line, conserved, group_line
from energyopt.planner.limits.groups import common_clocks, stage_groups
from energyopt.schemas.errors import SolverError

TINY = [
    {"most": 3, "stages": 2, "microbatches": 2},
    {"most": 2, "stages": 2, "microbatches": 3, "style": "noisy"},
    {"most": 2, "stages": 3, "microbatches": 2, "p2p_time_s": 0.1},
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=st.integers(0, len(TINY) - 1), seed=st.integers(0, 50), change_j=st.floats(0, 300))
def test_no_plan_lies_below_the_bound_of_any_prices(
    case: int,
    seed: int,
    change_j: float,
    random_job: Callable[..., Any],
    make_table: Callable[..., Any],
    every_plan: Callable[..., Any],
) -> None:
    job = random_job(seed, **TINY[case])
    table = make_table(job)
    graph, random = table.problem.graph, np.random.default_rng(seed)
    edge_w, sink_w = random.uniform(-50, 300, graph.n_edges), random.uniform(-50, 300, graph.n_ops)
    line = change_line(table, conserved(graph, edge_w, sink_w, change_j))
    for plan in every_plan(job, table):
        scale_j = abs(plan.effective_j) + abs(line.intercept_j)
        assert line.at(plan.makespan_s, plan.switches) <= plan.effective_j + 1e-9 * scale_j


@pytest.mark.parametrize("settings", TINY)
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_relaxed_bound_exact_problem_and_brute_force_agree(
    settings: dict[str, Any],
    limit: int,
    random_job: Callable[..., Any],
    make_table: Callable[..., Any],
    every_plan: Callable[..., Any],
) -> None:
    job = random_job(5, **settings)
    table = make_table(job)
    plans = every_plan(job, table)
    deadline_s = float(np.quantile([plan.makespan_s for plan in plans], 0.4))
    allowed = [p for p in plans if p.switches <= limit and p.makespan_s <= deadline_s * (1 + 1e-9)]
    singles = np.arange(table.problem.n_ops)
    offered = np.isfinite(table.time_nC)
    if not allowed:
        with pytest.raises(SolverError):
            solve_shared(table, singles, offered, deadline_s, limit, exact=True)
        return
    best_j = min(plan.effective_j for plan in allowed)
    scale_j = abs(best_j) + table.problem.static_power_w * deadline_s
    exact = solve_shared(table, singles, offered, deadline_s, limit, exact=True)
    assert exact.effective_j == pytest.approx(best_j, abs=1e-6 * scale_j)
    solver = SharedClockSolver(build_shared(table, singles, offered, limited=True), interior=True)
    relaxed = solver.solve(deadline_s, limit)
    assert relaxed is not None
    bound_j = change_line(table, relaxed.prices).at(deadline_s, limit)
    assert bound_j <= best_j + 1e-9 * scale_j
    assert bound_j == pytest.approx(relaxed.effective_j, abs=1e-4 * scale_j)


def test_groups_are_bounded_by_the_value_of_their_relaxed_problem(
    real_job: Callable[..., Any], make_table: Callable[..., Any]
) -> None:
    table = make_table(real_job("a100", 4))
    groups = stage_groups(table.problem.schedule)
    offered = common_clocks(table, groups)
    deadline_s = 1.05 * table.problem.paths.makespan_s(table.problem.fastest_s)
    arrays = build_shared(table, groups, offered, limited=False)
    relaxed = SharedClockSolver(arrays, interior=True).solve(deadline_s)
    assert relaxed is not None
    line = group_line(table, groups, relaxed.prices)
    assert line.at(deadline_s, 0) == pytest.approx(relaxed.effective_j, rel=1e-4)
    assert line.at(deadline_s, 0) <= relaxed.effective_j * (1 + 1e-6)


def test_prices_pass_on_what_enters(random_job: Callable[..., Any], make_problem: Callable[..., Any]) -> None:
    graph = make_problem(random_job(0, stages=3, microbatches=3)).graph
    random = np.random.default_rng(0)
    prices = conserved(graph, random.uniform(0, 1, graph.n_edges), random.uniform(0, 1, graph.n_ops))
    entering = np.bincount(graph.head, prices.edge_flow_w, graph.n_ops)
    assert (prices.of_ops(graph) >= entering * (1 - 1e-12)).all()
