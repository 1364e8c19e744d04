"""Fixed and P2P time: recovered from runs simulated with known ones, and kept where runs cannot tell."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from energyopt.planner.calibration.iteration_time import Known, TimeFit, fit_iteration_time
from energyopt.planner.verification.statistics import Estimate
from energyopt.schemas.errors import ProfileError

NOTHING = Known()


def fit(job: Any, runs: int, noise: float = 0.0, known: Known = NOTHING, seed: int = 0) -> TimeFit:
    random = np.random.default_rng(seed)
    clocks = [job.clocks(100 * seed + number) for number in range(runs)]
    totals = [job.cost(one)[0] * (1 + noise * random.standard_normal()) for one in clocks]
    times = [Estimate(mean=one, iterations=5, half_width=0.01) for one in totals]
    op_time_s = [np.array([job.times_s(one)]) for one in clocks]
    return fit_iteration_time(job.schedule, op_time_s, times, known)


def test_both_times_are_recovered_exactly_without_noise(recorded: ModuleType) -> None:
    found = fit(recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01), runs=12)
    assert found.p2p_kept is None
    assert found.p2p_time_s == pytest.approx(0.01, rel=0.01)
    assert found.fixed_time_s == pytest.approx(0.3, rel=0.01)


@pytest.mark.parametrize("p2p_s", [0.0, 0.001, 0.004, 0.02])
def test_intervals_of_the_fixed_time_hold_the_truth_whether_p2p_was_fitted_or_kept(
    recorded: ModuleType, p2p_s: float
) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=p2p_s)
    inside, kept, kept_inside = 0, 0, 0
    for seed in range(40):
        found = fit(job, runs=8, noise=0.002, seed=seed)
        assert found.fixed_half_s is not None
        holds = abs(found.fixed_time_s - 0.3) <= found.fixed_half_s
        inside += holds
        kept += found.p2p_kept is not None
        kept_inside += found.p2p_kept is not None and holds
    assert inside >= 35
    assert kept_inside >= 0.9 * kept - 1


def test_intervals_of_the_p2p_time_hold_the_truth(recorded: ModuleType) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.02)
    p2p, fitted = 0, 0
    for seed in range(40):
        found = fit(job, runs=15, noise=0.002, seed=seed)
        if found.p2p_kept is None:
            assert found.p2p_half_s is not None
            fitted += 1
            p2p += abs(found.p2p_time_s - 0.02) <= found.p2p_half_s
    assert fitted >= 35
    assert p2p >= 0.85 * fitted


def test_a_run_of_many_iterations_counts_more(recorded: ModuleType) -> None:
    job = recorded.Job(stages=1, fixed_s=0.3)
    clocks = job.clocks(0)
    times = [Estimate(mean=job.cost(clocks)[0] + more, iterations=5) for more in (0.0, 0.1)]
    op_time_s = [np.array([job.times_s(clocks)])] * 2
    found = fit_iteration_time(job.schedule, op_time_s, times, NOTHING, np.array([9.0, 1.0]))
    assert found.fixed_time_s == pytest.approx(0.31)


def test_a_path_longer_than_the_iterations_is_told(recorded: ModuleType) -> None:
    job = recorded.Job(stages=1, fixed_s=0.0)
    clocks = job.clocks(0)
    times = [Estimate(mean=0.99 * job.cost(clocks)[0], iterations=5, half_width=0.01)]
    found = fit_iteration_time(job.schedule, [np.array([job.times_s(clocks)])], times, NOTHING)
    assert (found.fixed_time_s, found.overlap) == (0.0, pytest.approx(0.01 / 0.99))


def test_few_runs_fit_the_fixed_time_and_keep_the_p2p_time(recorded: ModuleType) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01)
    found = fit(job, runs=2, known=Known(p2p_time_s=0.01, half_s=0.0))
    assert found.p2p_kept == "2 runs cannot tell it from the fixed time; give 4 or more, of different plans"
    assert (found.p2p_time_s, found.p2p_half_s) == (0.01, 0.0)
    assert found.fixed_time_s == pytest.approx(0.3)
    one = fit(job, runs=1, known=Known(p2p_time_s=0.01, half_s=0.0))
    assert (one.fixed_time_s, one.fixed_half_s) == (pytest.approx(0.3), pytest.approx(0.01))


def test_a_p2p_time_of_which_nothing_is_known_may_hide_in_all_of_the_fixed_time(recorded: ModuleType) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01)
    for runs in (1, 3):
        found = fit(job, runs=runs)
        assert found.p2p_time_s == 0.0 and found.fixed_half_s is not None
        assert found.fixed_time_s > 0.35  # it has the transfers in it
        assert abs(found.fixed_time_s - 0.3) <= found.fixed_half_s
        assert found.fixed_half_s >= found.fixed_time_s
        about = fit(job, runs=runs, known=Known(p2p_time_s=0.009, half_s=0.002))
        assert about.fixed_half_s is not None and about.fixed_half_s < found.fixed_half_s
        assert abs(about.fixed_time_s - 0.3) <= about.fixed_half_s


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
    op_time_s = [np.array([job.times_s(clocks)])]
    short = Estimate(mean=0.9 * job.cost(clocks)[0], iterations=5)
    with pytest.raises(ProfileError, match="the recorded times of operations include waiting"):
        fit_iteration_time(job.schedule, op_time_s, [short], NOTHING)
