"""Fixed and P2P time: recovered from runs simulated with known ones, and kept where runs cannot tell."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from energyopt.planner.calibration.iteration_time import TimeFit, fit_iteration_time
from energyopt.planner.verification.statistics import Estimate
from energyopt.schemas.errors import ProfileError


def fit(job: Any, runs: int, noise: float = 0.0, known_p2p_s: float = 0.0, seed: int = 0) -> TimeFit:
    random = np.random.default_rng(seed)
    clocks = [job.clocks(100 * seed + number) for number in range(runs)]
    totals = [job.cost(one)[0] * (1 + noise * random.standard_normal()) for one in clocks]
    times = [Estimate(mean=one, iterations=5, half_width=0.01) for one in totals]
    op_time_s = np.array([job.times_s(one) for one in clocks]).T
    return fit_iteration_time(job.schedule, op_time_s, times, known_p2p_s)


def test_both_times_are_recovered_exactly_without_noise(recorded: ModuleType) -> None:
    found = fit(recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01), runs=12)
    assert found.p2p_kept is None
    assert found.p2p_time_s == pytest.approx(0.01, rel=0.01)
    assert found.fixed_time_s == pytest.approx(0.3, rel=0.01)


def test_intervals_hold_the_truth(recorded: ModuleType) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.02)
    fixed, p2p, fitted = 0, 0, 0
    for seed in range(40):
        found = fit(job, runs=15, noise=0.002, seed=seed)
        if found.p2p_kept is None:
            assert found.fixed_half_s is not None and found.p2p_half_s is not None
            fitted += 1
            fixed += abs(found.fixed_time_s - 0.3) <= found.fixed_half_s
            p2p += abs(found.p2p_time_s - 0.02) <= found.p2p_half_s
    assert fitted >= 35
    assert fixed >= 0.85 * fitted
    assert p2p >= 0.85 * fitted


def test_few_runs_fit_the_fixed_time_and_keep_the_p2p_time(recorded: ModuleType) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01)
    found = fit(job, runs=2, known_p2p_s=0.01)
    assert found.p2p_kept == "2 runs cannot tell it from the fixed time; give 4 or more, of different plans"
    assert (found.p2p_time_s, found.p2p_half_s) == (0.01, None)
    assert found.fixed_time_s == pytest.approx(0.3)
    one = fit(job, runs=1, known_p2p_s=0.01)
    assert (one.fixed_time_s, one.fixed_half_s) == (pytest.approx(0.3), 0.01)


def test_runs_that_cross_equally_often_cannot_tell(recorded: ModuleType) -> None:
    """One stage far slower than the others: every longest path stays on it as long as it can."""
    job = recorded.Job(fixed_s=0.3, p2p_s=0.001, time_factor=lambda key: 5.0 if key.stage == 0 else 1.0)
    found = fit(job, runs=8)
    assert found.p2p_kept is not None
    assert "crosses between stages equally often" in found.p2p_kept
    assert found.predicted_s == pytest.approx(
        [job.cost(job.clocks(number))[0] for number in range(8)], rel=1e-6
    )


def test_no_p2p_time_is_not_made_up(recorded: ModuleType) -> None:
    found = fit(recorded.Job(stages=4, microbatches=8, fixed_s=0.3), runs=12, noise=0.002)
    assert found.p2p_time_s == 0.0
    assert found.p2p_kept is not None


def test_one_stage_sends_nothing(recorded: ModuleType) -> None:
    found = fit(recorded.Job(stages=1, fixed_s=0.3), runs=5)
    assert (found.p2p_kept, found.fixed_time_s) == ("one stage sends nothing", pytest.approx(0.3))


def test_operations_longer_than_iterations_are_refused(recorded: ModuleType) -> None:
    job = recorded.Job()
    clocks = job.clocks(0)
    op_time_s = np.array([job.times_s(clocks)]).T
    short = Estimate(mean=0.9 * job.cost(clocks)[0], iterations=5)
    with pytest.raises(ProfileError, match="the recorded times of operations include waiting"):
        fit_iteration_time(job.schedule, op_time_s, [short], 0.0)
