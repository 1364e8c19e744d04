"""Power by brute force: what every GPU draws at some moment, one operation after the other."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import pytest

from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.simulation import simulate
from energyopt.schemas.pipeline import Pipeline


class Plan(NamedTuple):
    """Iteration time, energy and peak of one combination of rows, with one GPU per stage."""

    time_s: float
    energy_j: float
    peak_w: float


def _steps(schedule: Any, pipeline: Any, rows: Sequence[Any], wait_w: float) -> list[tuple[float, float]]:
    """(duration, W of one GPU on every stage) between all starts and ends, for rows with time_s and energy_j."""
    timeline = simulate(schedule, [row.time_s for row in rows], pipeline.p2p_time_s, pipeline.fixed_time_s)
    moments = sorted({0.0, timeline.iteration_time_s, *timeline.start_s, *timeline.finish_s})
    found = []
    for begin_s, end_s in pairwise(moments):
        drawn_w = [wait_w] * schedule.stages
        for op, row, start_s, finish_s in zip(
            schedule.ops, rows, timeline.start_s, timeline.finish_s, strict=True
        ):
            if start_s < (begin_s + end_s) / 2 < finish_s:
                drawn_w[op.stage] = row.energy_j / row.time_s
        if end_s - begin_s > 1e-9:  # else apart by rounding alone
            found.append((end_s - begin_s, sum(drawn_w)))
    return found


def _plans(job: Any) -> list[Plan]:
    profile, pipeline, schedule = job
    wait_w = profile.metadata.wait_power_w
    rows = {op.key: [r for r in profile.rows if (r.stage, r.chunk, r.op) == op.key] for op in schedule.ops}
    found = []
    for chosen in product(*(rows[op.key] for op in schedule.ops)):
        steps = _steps(schedule, pipeline, chosen, wait_w)
        time_s = sum(span_s for span_s, _ in steps)
        energy_j = sum(span_s * power_w for span_s, power_w in steps)
        found.append(Plan(time_s, energy_j, max(power_w for _, power_w in steps)))
    return found


@pytest.fixture(scope="session")
def power_steps() -> Callable[..., list[tuple[float, float]]]:
    """The steps of the power of one GPU on every stage, counted operation by operation."""
    return _steps


@pytest.fixture(scope="session")
def all_plans() -> Callable[..., list[Plan]]:
    """Every plan of a tiny job whose rows name stage and chunk."""
    return _plans


@pytest.fixture(scope="session")
def clocked_job(make_profile: Callable[..., Any]) -> Callable[..., Any]:
    """A job whose operations, of random sizes, were all measured at 8 clocks; power falls with the clock's cube."""

    def build(seed: int, gpus_per_stage: int = 1, **pipeline: Any) -> tuple[Any, Pipeline, Any]:
        settings = Pipeline(**pipeline)
        schedule, chance = build_schedule(settings), random.Random(seed)
        rows = []
        for stage, chunk, kind in sorted({op.key for op in schedule.ops}):
            size_s = chance.uniform(0.5, 1.0)
            for clock in range(700, 1500, 100):
                time_s = size_s * (0.3 + 0.7 * 1400 / clock)
                power_w = 100 + 200 * (clock / 1400) ** 3
                rows.append((stage, chunk, kind, clock, time_s, power_w * time_s))
        return make_profile(rows, 80.0, gpus_per_stage), settings, schedule

    return build
