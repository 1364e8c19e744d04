"""Power over time against the job worked out in tests/conftest.py, and against counting operation by operation."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.power.over_time import Loads, PowerOverTime, loads_of_point
from energyopt.planner.solve import Effort
from energyopt.schemas.frontier import Frontier

SETTINGS: tuple[dict[str, Any], ...] = (
    {"stages": 3, "microbatches": 4, "p2p_time_s": 0.1, "fixed_time_s": 0.7},
    {"schedule": "gpipe", "stages": 2, "microbatches": 3},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 3},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
)


def _all_fast(frontier: Frontier) -> Frontier:
    return replace(frontier, points=(replace(frontier.points[0], choices=(0,) * 8),))


def _power(power_w: list[float], spans_s: list[float]) -> PowerOverTime:
    return PowerOverTime(edge_s=np.cumsum([0.0, *spans_s]), power_w=np.array(power_w))


def test_by_hand(small_frontier: Frontier) -> None:
    """300 W each while both stages run, 100 W waiting: see the timeline in tests/conftest.py."""
    power = loads_of_point(_all_fast(small_frontier), 0).of_pipeline(1)
    assert power.edge_s.tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert power.power_w.tolist() == pytest.approx([400, 600, 400, 600, 600, 400, 400])
    assert power.energy_j == pytest.approx(4200.0)
    assert power.average_w == pytest.approx(4200 / 9)
    assert [power.peak_w(lasts_s) for lasts_s in (0.0, 1.0, 2.0, 2.01, 100.0)] == pytest.approx(
        [600, 600, 600, 400, 400]
    )


def test_transfers_and_fixed_time_are_at_wait_power(small_frontier: Frontier) -> None:
    """0.5 s there and back, and 3 s fixed: 13 s, of which 12 s of work at 200 W beyond the wait power of both."""
    pipeline = replace(small_frontier.pipeline, p2p_time_s=0.5, fixed_time_s=3.0)
    power = loads_of_point(replace(_all_fast(small_frontier), pipeline=pipeline), 0).of_pipeline(4)
    assert power.edge_s[-1] == 13.0
    assert power.power_w[-1] == pytest.approx(4 * 200.0)
    assert power.energy_j == pytest.approx(4 * (12 * 200 + 13 * 200))


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_integral_is_the_energy_and_the_steps_are_right(
    settings: dict[str, Any], random_job: Callable[..., Any], power_steps: Callable[..., Any]
) -> None:
    job = random_job(3, style="noisy", **settings)
    frontier = plan_frontier(*job, effort=Effort.QUICK)
    for index, point in enumerate(frontier.points):
        power = loads_of_point(frontier, index).of_pipeline(1)
        assert power.energy_j == pytest.approx(point.energy_j, rel=1e-9)
        assert power.average_w == pytest.approx(point.average_power_w, rel=1e-9)
        steps = power_steps(job.schedule, job.pipeline, frontier.chosen_options(index), 80.0)
        assert point.peak_power_w == pytest.approx(max(power_w for _, power_w in steps), rel=1e-9)
        middle_s = np.cumsum([span_s for span_s, _ in steps]) - [span_s / 2 for span_s, _ in steps]
        found = power.power_w[np.searchsorted(power.edge_s, middle_s) - 1]
        assert found.tolist() == pytest.approx([power_w for _, power_w in steps], rel=1e-9)


def test_the_points_of_a_frontier_cover_all_gpus(
    make_profile: Callable[..., Any], random_job: Callable[..., Any]
) -> None:
    job = random_job(1)
    rows = [(r.stage, r.chunk, r.op, r.sm_clock_mhz, r.time_s, r.energy_j) for r in job.profile.rows]
    one, eight = (
        plan_frontier(make_profile(rows, 80.0, gpus), job.pipeline, job.schedule, effort=Effort.QUICK)
        for gpus in (1, 8)
    )
    for single, whole in zip(one.points, eight.points, strict=True):
        assert single.peak_power_w is not None
        assert whole.peak_power_w == pytest.approx(8 * single.peak_power_w)


def test_rounding_makes_no_peak() -> None:
    """One stage ends at 0.3 s, the other begins at 0.1 + 0.2 s or an instant before: never both at once."""
    for start_s in (0.1 + 0.2, 0.3, np.nextafter(0.3, 0)):
        loads = Loads(
            start_s=np.array([0.0, start_s]),
            finish_s=np.array([0.1 + 0.2, 1.0]),
            beyond_w=np.array([200.0, 200.0]),
            stage_of=np.array([0, 1]),
            stages=2,
            wait_power_w=100.0,
            iteration_time_s=1.0,
        )
        assert loads.of_pipeline(1).power_w.tolist() == pytest.approx([400.0, 400.0])


@pytest.mark.parametrize("seed", range(20))
def test_a_peak_lasts(seed: int) -> None:
    """Against every second of four iterations in a row: the best of all windows' lowest powers."""
    chance = np.random.default_rng(seed)
    spans_s = chance.integers(1, 5, 12)
    power_w = chance.integers(1, 6, 12).astype(float)
    seconds = np.tile(np.repeat(power_w, spans_s), 4)
    power = _power(power_w.tolist(), spans_s.tolist())
    for lasts_s in range(1, int(spans_s.sum()) + 1):
        windows = np.lib.stride_tricks.sliding_window_view(seconds, lasts_s)
        assert power.peak_w(lasts_s) == windows.min(axis=1).max()
        cap_w = 3.0
        assert power.beyond(cap_w, lasts_s).any() == (power.peak_w(lasts_s) > cap_w)


def test_what_is_beyond_a_cap() -> None:
    """500 W for 1 s, and 500 W at the end and the beginning of the iteration, 2 s on end."""
    power = _power([500.0, 100.0, 500.0, 100.0, 500.0], [1.0, 2.0, 1.0, 2.0, 1.0])
    assert power.beyond(400.0).tolist() == [True, False, True, False, True]
    assert power.beyond(400.0, 1.5).tolist() == [True, False, False, False, True]
    assert not power.beyond(500.0).any()
    assert power.beyond(50.0, 1e6).all()


def test_262144_operations_take_seconds() -> None:
    """64 stages, whose operations follow one another; the integral stays exact."""
    chance = np.random.default_rng(0)
    time_s, power_w = chance.uniform(0.1, 0.2, (64, 4096)), chance.uniform(100, 500, (64, 4096))
    finish_s = np.cumsum(time_s, axis=1)
    loads = Loads(
        start_s=(finish_s - time_s).ravel(),
        finish_s=finish_s.ravel(),
        beyond_w=power_w.ravel() - 80.0,
        stage_of=np.repeat(np.arange(64), 4096),
        stages=64,
        wait_power_w=80.0,
        iteration_time_s=float(finish_s.max()),
    )
    begin = perf_counter()
    power = loads.of_pipeline(8)
    peak_w = power.peak_w(0.01)
    assert perf_counter() - begin < 10.0
    busy_j = float(((power_w - 80.0) * time_s).sum())
    assert power.energy_j == pytest.approx(8 * (busy_j + 64 * 80.0 * finish_s.max()), rel=1e-10)
    assert power.average_w < peak_w <= power.peak_w() <= 64 * 8 * 500
