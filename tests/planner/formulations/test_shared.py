"""The arrays with shared clocks have the optimum of the problem on paper, and the figures of a prototype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.baselines import max_clock_baseline
from energyopt.planner.formulations.cvxpy_shared import solve_shared
from energyopt.planner.formulations.shared import build_shared
from energyopt.planner.formulations.shared_highs import SharedClockSolver
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.groups import (
    common_clocks,
    offered_clocks,
    ramp_groups,
    stage_groups,
    steady_groups,
)
from energyopt.schemas.errors import RequestError

JOBS = [
    {"stages": 3, "microbatches": 4},
    {"stages": 2, "microbatches": 3, "p2p_time_s": 0.2},
    {"schedule": "zb-h1", "stages": 2, "microbatches": 3},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 2, "chunks_per_stage": 2},
]
GROUPINGS = [stage_groups, ramp_groups, lambda schedule: np.arange(len(schedule.ops))]
SAVINGS = {  # (profile, grouping, slowdown): % saved at 96 microbatches, from an independent prototype
    ("a100", steady_groups, 1.0): 13.72,
    ("a40", steady_groups, 1.0): 5.15,
    ("a40", steady_groups, 1.05): 12.5,
    ("a100", stage_groups, 1.0): 0.0,
    ("a40", stage_groups, 1.0): 3.4,
    ("a100", stage_groups, 1.05): 19.3,
}


@pytest.mark.parametrize("settings", JOBS)
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("limit", [np.inf, 2])
def test_the_arrays_agree_with_the_paper(
    settings: dict[str, Any],
    grouping: Callable[..., Any],
    limit: float,
    random_job: Callable[..., Any],
    make_problem: Callable[..., Any],
) -> None:
    job = random_job(4, most=4, **settings)
    table = clock_table(make_problem(job))
    groups = grouping(job.schedule)
    offered = common_clocks(table, groups)
    time_s = np.zeros(offered.shape)
    np.add.at(time_s, groups, table.time_nC)
    fastest = np.where(offered, time_s, np.inf).argmin(axis=1)[groups]
    deadline_s = 1.1 * table.problem.paths.makespan_s(table.time_nC[np.arange(len(groups)), fastest])
    paper = solve_shared(table, groups, offered, deadline_s, limit)
    scale_j = abs(paper.effective_j) + table.problem.static_power_w * deadline_s
    for interior in (False, True):
        arrays = build_shared(table, groups, offered, limited=bool(np.isfinite(limit)))
        found = SharedClockSolver(arrays, interior=interior).solve(deadline_s, limit)
        assert found is not None
        assert found.effective_j == pytest.approx(paper.effective_j, abs=1e-5 * scale_j)


@pytest.mark.parametrize(("case", "saving"), SAVINGS.items())
def test_what_shared_clocks_keep_of_the_saving(
    case: tuple[str, Callable[..., Any], float],
    saving: float,
    real_job: Callable[..., Any],
    make_problem: Callable[..., Any],
) -> None:
    name, grouping, slowdown = case
    job = real_job(name, 96)
    problem = make_problem(job)
    table = clock_table(problem)
    groups = grouping(job.schedule)
    baseline = max_clock_baseline(problem, job.pipeline, 1)
    deadline_s = slowdown * baseline.iteration_time_s
    arrays = build_shared(table, groups, offered_clocks(table, groups), limited=False)
    found = SharedClockSolver(arrays, interior=False).solve(deadline_s)
    assert found is not None
    energy_j = found.effective_j + problem.static_power_w * deadline_s
    digits = 0.006 if round(saving, 1) != saving else 0.06
    assert 100 * (1 - energy_j / baseline.energy_j) == pytest.approx(saving, abs=digits)


def test_operations_that_share_no_clock_are_refused(
    make_profile: Callable[..., Any], random_job: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    job = random_job(0, most=1)
    rows = [
        (row.stage, row.chunk, row.op, 1000 + 100 * index, row.time_s, row.energy_j)
        for index, row in enumerate(job.profile.rows)
    ]
    table = clock_table(make_problem(job._replace(profile=make_profile(rows))))
    with pytest.raises(RequestError, match="stage 0 share no measured clock"):
        common_clocks(table, stage_groups(job.schedule))
