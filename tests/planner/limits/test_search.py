"""Moves and their valuation, levels, and the search's promise: never worse, never disobedient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.limits.groups import steady_groups
from energyopt.planner.limits.moves import GroupMoves, Neighbourhood, RunMoves
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee, Task, improve

JOBS = [
    {"stages": 3, "microbatches": 5},
    {"stages": 2, "microbatches": 3, "p2p_time_s": 0.2},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 4},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
]


@pytest.fixture(params=JOBS)
def table(
    request: pytest.FixtureRequest, random_job: Callable[..., Any], make_table: Callable[..., Any]
) -> Any:
    return make_table(random_job(9, most=6, **request.param))


def _random_plans(table: Any, count: int) -> np.ndarray:
    random = np.random.default_rng(1)
    measured = [np.flatnonzero(np.isfinite(row)) for row in table.time_nC]
    return np.array([random.choice(clocks, count) for clocks in measured], dtype=np.int16)


@pytest.mark.parametrize("grouped", [False, True])
def test_moves_are_worth_what_they_say(table: Any, grouped: bool) -> None:
    price_w, change_j = np.full(table.problem.n_ops, 70.0), 12.0
    plan = _random_plans(table, 1)[:, 0]
    moves: Neighbourhood = RunMoves(table, price_w, change_j)
    if grouped:
        moves, change_j = GroupMoves(table, steady_groups(table.problem.schedule), price_w), 0.0

    def worth_j(plans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        energy_j = table.effective_j(plans)
        return energy_j, energy_j + price_w @ table.time_s(plans) + change_j * table.switches(plans)

    found = moves.around(plan)
    assert len(found.clock) > 10
    moved = np.repeat(plan[:, None], len(found.clock), axis=1)
    for column in range(len(found.clock)):
        moves.make(moved, column, found, column)
    for said_j, after_j, before_j in zip(
        (found.energy_j, found.priced_j), worth_j(moved), worth_j(plan[:, None]), strict=True
    ):
        assert said_j == pytest.approx(after_j - before_j, abs=1e-9 * np.abs(after_j).max())


def test_a_better_plan_obeys(table: Any) -> None:
    referee = Referee(table)
    plan = _random_plans(table, 1)[:, 0]
    makespan_s = float(referee.makespan_s(plan[:, None])[0])
    switches = int(table.switches(plan[:, None])[0])
    limits = SwitchLimits(max_switches=switches)
    task = Task(deadline_s=makespan_s, limits=limits, power_w=table.problem.static_power_w)
    before_j = float(referee.cost_j(task, plan[:, None])[0])
    better, cost_j = improve(referee, task, plan, RunMoves(table, np.full(len(plan), 80.0), 1.0), 20)
    assert cost_j < before_j
    assert referee.makespan_s(better[:, None])[0] <= makespan_s * (1 + 1e-12)
    assert table.switches(better[:, None])[0] <= switches
    assert cost_j == pytest.approx(float(referee.cost_j(task, better[:, None])[0]), rel=1e-12)
