"""Brute force over clocks: every plan of a tiny job with its time, energy and changes, counted by loops."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from energyopt.planner.limits.clocks import ClockTable, clock_table


class Plan(NamedTuple):
    """Clock indices, makespan, effective energy and clock changes."""

    clocks: tuple[int, ...]
    makespan_s: float
    effective_j: float
    switches: int


def _changes(stages: list[int], clocks: tuple[int, ...]) -> int:
    return sum(stages[i] == stages[i + 1] and clocks[i] != clocks[i + 1] for i in range(len(clocks) - 1))


@pytest.fixture(scope="session")
def count_changes() -> Callable[..., int]:
    """Clock changes of a plan, by a loop: stages of the operations, their clocks."""
    return _changes


@pytest.fixture(scope="session")
def make_table(make_problem: Callable[..., Any]) -> Callable[..., ClockTable]:
    """The clock table of a job."""
    return lambda job: clock_table(make_problem(job))


@pytest.fixture(scope="session")
def every_plan(longest_path_s: Callable[..., float]) -> Callable[..., list[Plan]]:
    """All plans of a tiny job over all measured clocks."""

    def enumerate_all(job: Any, table: ClockTable) -> list[Plan]:
        measured = [np.flatnonzero(np.isfinite(row)).tolist() for row in table.time_nC]
        stages = [op.stage for op in job.schedule.ops]
        found = []
        for clocks in product(*measured):
            time_s = [float(table.time_nC[op, clock]) for op, clock in enumerate(clocks)]
            effective_j = sum(float(table.effective_nC[op, clock]) for op, clock in enumerate(clocks))
            makespan_s = longest_path_s(job.schedule, time_s, job.pipeline.p2p_time_s)
            found.append(Plan(clocks, makespan_s, effective_j, _changes(stages, clocks)))
        return found

    return enumerate_all
