"""The simulator against a timeline worked out by hand (tests/conftest.py), and both forms of the energy formula."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.simulation import iteration_energy_j, simulate
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.frontier import Frontier

FAST = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 2.0)  # F0 F1 B0 B1 of stage 0, F0 B0 F1 B1 of stage 1
ENERGY = tuple(300.0 * time_s for time_s in FAST)


def test_a_timeline_by_hand(small_frontier: Frontier) -> None:
    timeline = simulate(small_frontier.schedule, FAST)
    assert timeline.start_s == (0.0, 1.0, 4.0, 7.0, 1.0, 2.0, 4.0, 5.0)
    assert timeline.finish_s == (1.0, 2.0, 6.0, 9.0, 2.0, 4.0, 5.0, 7.0)
    assert timeline.iteration_time_s == 9.0


def test_transfers_and_fixed_time(small_frontier: Frontier) -> None:
    """Half a second there and back, on the longest path F0 - F0 B0 F1 B1 - B1; 3 s fixed."""
    timeline = simulate(small_frontier.schedule, FAST, p2p_time_s=0.5, fixed_time_s=3.0)
    assert timeline.start_s == (0.0, 1.0, 5.0, 8.0, 1.5, 2.5, 4.5, 5.5)
    assert timeline.iteration_time_s == 10.0 + 3.0


def test_energy_by_hand(small_frontier: Frontier) -> None:
    """12 s of work at 300 W, and 2 x 9 - 12 s of waiting at 100 W."""
    timeline = simulate(small_frontier.schedule, FAST)
    assert iteration_energy_j(timeline, FAST, ENERGY, 100.0, 2) == 3600.0 + 600.0


@pytest.mark.parametrize(
    "settings",
    [
        {"stages": 4, "microbatches": 5},
        {"schedule": "zb-h1", "stages": 3, "microbatches": 4},
        {"schedule": "gpipe", "stages": 2, "microbatches": 3, "p2p_time_s": 0.3},
        {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
    ],
)
def test_both_forms_of_the_energy_formula(
    settings: dict[str, Any], random_job: Callable[..., Any], longest_path_s: Callable[..., float]
) -> None:
    """sum e + P (N T - sum t)  =  sum (e - P t) + N P T, with T the longest path; design, section 4."""
    job = random_job(1, style="noisy", **settings)
    rows = {(row.stage, row.chunk, row.op): row for row in job.profile.rows}
    chosen = [rows[op.key] for op in job.schedule.ops]
    time_s, energy_j = [row.time_s for row in chosen], [row.energy_j for row in chosen]
    timeline = simulate(job.schedule, time_s, job.pipeline.p2p_time_s)
    found_j = iteration_energy_j(timeline, time_s, energy_j, 80.0, job.schedule.stages)
    total_s = longest_path_s(job.schedule, time_s, job.pipeline.p2p_time_s)
    effective_j = sum(e - 80.0 * t for e, t in zip(energy_j, time_s, strict=True))
    assert timeline.iteration_time_s == pytest.approx(total_s, rel=1e-12)
    assert found_j == pytest.approx(effective_j + job.schedule.stages * 80.0 * total_s, rel=1e-12)


def test_a_deadlock_is_refused(small_frontier: Frontier) -> None:
    """Stage 1 wants microbatch 1 first, stage 0 runs the backward of 0 before the forward of 1."""
    schedule = small_frontier.schedule
    f0, f1, b0, b1 = schedule.orders[0]
    g0, c0, g1, c1 = schedule.orders[1]
    stuck = replace(schedule, orders=((f0, b0, f1, b1), (g1, c1, g0, c0)))
    with pytest.raises(ScheduleError, match=r"cannot run: .* waits for ever for the .* of microbatch"):
        simulate(stuck, FAST)
