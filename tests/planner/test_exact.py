"""The whole planner on jobs so small that every plan can be tried."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.frontier import plan_frontier

TINY = [
    {"most": 4, "stages": 3, "microbatches": 1},
    {"most": 3, "stages": 2, "microbatches": 2},
    {"most": 2, "stages": 2, "microbatches": 3, "wait_power_w": 0.0},
    {"most": 2, "stages": 3, "microbatches": 2, "p2p_time_s": 0.1},
    {"most": 2, "schedule": "gpipe", "stages": 3, "microbatches": 2, "fixed_time_s": 0.3},
    {"most": 2, "schedule": "zb-h1"},
    {"most": 4, "stages": 1, "microbatches": 3},
    {"most": 2, "schedule": "interleaved-1f1b", "microbatches": 2, "stages": 1, "chunks_per_stage": 3},
]
STYLES = ("smooth", "noisy", "round")
CASES = [(settings, style, seed) for settings in TINY for style in STYLES for seed in (11, 12)]

Solved = list[tuple[Any, Any, list[Any]]]


@pytest.fixture(scope="module")
def solved(random_job: Callable[..., Any], enumerate_plans: Callable[..., Any]) -> Solved:
    """(job, frontier, every plan) for each case."""
    jobs = [random_job(seed, style=style, **settings) for settings, style, seed in CASES]
    return [(job, plan_frontier(*job), enumerate_plans(job)) for job in jobs]


def _excess(job: Any, point: Any, plans: list[Any]) -> float:
    """How much dearer a plan is than the best of all that end by its time, relative."""
    static_w = job.profile.metadata.wait_power_w * job.pipeline.stages
    in_time = [plan.effective_j for plan in plans if plan.time_s <= point.iteration_time_s]
    return float(point.energy_j / (min(in_time) + static_w * point.iteration_time_s) - 1)


def test_time_and_energy_are_those_of_the_plan(solved: Solved, longest_path_s: Callable[..., float]) -> None:
    """E = sum of what operations draw + wait power x (stages x T - busy time)."""
    for job, frontier, _ in solved:
        for point in frontier.points:
            chosen = [
                frontier.options[op.key][choice]
                for op, choice in zip(job.schedule.ops, point.choices, strict=True)
            ]
            times = [option.time_s for option in chosen]
            time_s = longest_path_s(job.schedule, times, job.pipeline.p2p_time_s) + job.pipeline.fixed_time_s
            waiting_s = job.pipeline.stages * time_s - sum(times)
            drawn_j = sum(option.energy_j for option in chosen)
            assert point.iteration_time_s == pytest.approx(time_s, rel=1e-12)
            assert point.energy_j == pytest.approx(
                drawn_j + job.profile.metadata.wait_power_w * waiting_s, rel=1e-12
            )


def test_no_plan_lies_below_its_bound(solved: Solved) -> None:
    for job, frontier, plans in solved:
        static_w = job.profile.metadata.wait_power_w * job.pipeline.stages
        for point in frontier.points:
            in_time = [p.effective_j for p in plans if p.time_s <= point.iteration_time_s * (1 + 1e-12)]
            best_j = min(in_time) + static_w * point.iteration_time_s
            assert point.lower_bound_j <= best_j * (1 + 1e-9)
            assert point.energy_j >= best_j * (1 - 1e-9)


def test_plans_are_the_best_there_are(solved: Solved) -> None:
    """The search proves nothing, so a miss is no defect; it should be rare and small on jobs of this size."""
    excess = [_excess(job, point, plans) for job, frontier, plans in solved for point in frontier.points]
    assert len(excess) > 200
    assert np.median(excess) <= 1e-12
    assert np.mean(np.array(excess) > 1e-9) <= 0.02
    assert max(excess) <= 0.03


def test_the_named_points_are_the_best_there_are(solved: Solved) -> None:
    missed = 0
    for _, frontier, plans in solved:
        named = {name: point for point in frontier.points for name in point.names}
        in_time = [plan for plan in plans if plan.time_s <= frontier.max_clock.iteration_time_s]
        pairs = [
            (named["fastest"].iteration_time_s, min(plan.time_s for plan in plans)),
            (named["min_energy"].energy_j, min(plan.energy_j for plan in plans)),
            (named["max_clock_time"].energy_j, min(plan.energy_j for plan in in_time)),
            (
                named["best_edp"].energy_j * named["best_edp"].iteration_time_s,
                min(plan.energy_j * plan.time_s for plan in plans),
            ),
        ]
        assert all(ours >= best * (1 - 1e-9) for ours, best in pairs)
        assert pairs[0][0] == pytest.approx(pairs[0][1], rel=1e-12)
        missed += sum(ours > best * (1 + 1e-9) for ours, best in pairs)
    assert missed <= len(solved) * len(pairs) * 0.02
