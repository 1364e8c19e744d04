"""The certified bound: as high as the relaxed optimum, and below every plan whatever the prices are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.certificate import BoundLine, certify
from energyopt.planner.formulations.highs import HighsRelaxedSolver

ANY_JOB = [
    {"schedule": "gpipe", "microbatches": 6},
    {"schedule": "1f1b", "stages": 4, "microbatches": 5, "p2p_time_s": 0.05},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 4},
]


@pytest.mark.parametrize("settings", ANY_JOB, ids=lambda one: one["schedule"])
@pytest.mark.parametrize("slack", [1.0, 1.03, 1.2, 3.0])
def test_it_reaches_the_relaxed_optimum(
    settings: dict[str, Any], slack: float, random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    for style in ("smooth", "noisy", "round"):
        _check_tight(make_problem(random_job(3, most=5, style=style, **settings)), slack)


@pytest.mark.parametrize("name", ["a100", "a40"])
def test_it_reaches_the_relaxed_optimum_of_real_profiles(
    name: str, real_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(real_job(name))
    for slack in (1.0, 1.05, 1.1):
        _check_tight(problem, slack)


def _check_tight(problem: Any, slack: float) -> None:
    deadline_s = problem.paths.makespan_s(problem.fastest_s) * slack
    relaxed = HighsRelaxedSolver(problem).solve(deadline_s)
    bound_j = certify(problem, relaxed.edge_flow_w, relaxed.sink_flow_w).at(deadline_s)
    total_j = relaxed.effective_j + problem.static_power_w * deadline_s
    assert bound_j - relaxed.effective_j == pytest.approx(0.0, abs=1e-9 * total_j)


@pytest.mark.parametrize("seed", range(6))
def test_no_prices_give_a_bound_above_any_plan(
    seed: int,
    random_job: Callable[..., Any],
    make_problem: Callable[..., Any],
    enumerate_plans: Callable[..., Any],
) -> None:
    """Optimal prices, disturbed ones, others' prices, negative ones, none: all bounds hold, at every makespan."""
    job = random_job(seed, style=("smooth", "noisy", "round")[seed % 3], p2p_time_s=0.1 * (seed % 2))
    problem, plans = make_problem(job), enumerate_plans(job)
    chance = np.random.default_rng(seed)
    relaxed = HighsRelaxedSolver(problem).solve(1.1 * problem.paths.makespan_s(problem.fastest_s))
    edge_w, sink_w = relaxed.edge_flow_w, relaxed.sink_flow_w
    wrong = [
        (edge_w, sink_w),
        (0 * edge_w, 0 * sink_w),
        (edge_w, 0 * sink_w),
        (0 * edge_w, sink_w),
        (-edge_w, -sink_w),
        (chance.permutation(edge_w), sink_w),
        *(
            (edge_w * chance.uniform(0.5, 1.5, len(edge_w)), sink_w + chance.uniform(-50, 50, len(sink_w)))
            for _ in range(20)
        ),
    ]
    for edge_flow_w, sink_flow_w in wrong:
        line = certify(problem, edge_flow_w, sink_flow_w)
        assert all(line.at(plan.time_s) <= plan.effective_j + 1e-9 * plan.energy_j for plan in plans)


def test_without_prices_it_is_the_least_energy_of_every_operation(
    random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    job = random_job(1, most=4, style="noisy", wait_power_w=10.0)
    rows = {
        op.key: [r for r in job.profile.rows if (r.stage, r.chunk, r.op) == op.key] for op in job.schedule.ops
    }
    least_j = sum(min(row.energy_j - 10.0 * row.time_s for row in rows[op.key]) for op in job.schedule.ops)
    problem = make_problem(job)
    line = certify(problem, np.zeros(problem.graph.n_edges), np.zeros(problem.n_ops))
    assert line.intercept_j == pytest.approx(least_j, rel=1e-12)
    assert line.slope_w == 0.0


def test_a_bound_is_linear_in_the_makespan() -> None:
    line = BoundLine(intercept_j=100.0, slope_w=-20.0)
    assert [line.at(time_s) for time_s in (0.0, 1.0, 2.5)] == [100.0, 80.0, 50.0]
