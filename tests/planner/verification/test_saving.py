"""Savings against several baseline runs: the interval holds what runs of one job differ by."""

import numpy as np
import pytest

from energyopt.planner.verification.saving import ratio_to_runs

REPETITIONS = 200


def run(random: np.random.Generator, mean: float, n: int) -> "np.typing.NDArray[np.float64]":
    """A run that is off by 0.5 % as a whole, and by 0.2 % from iteration to iteration."""
    return mean * (1 + 0.005 * random.standard_normal()) * (1 + 0.002 * random.standard_normal(n))


def inside(baselines: int) -> float:
    """How often the interval of a job against itself holds 1."""
    random = np.random.default_rng(baselines)
    count = 0
    for _ in range(REPETITIONS):
        found = ratio_to_runs(run(random, 1.0, 40), [run(random, 1.0, 40) for _ in range(baselines)])
        assert found is not None and found.low is not None and found.high is not None
        count += found.low <= 1.0 <= found.high
    return count / REPETITIONS


@pytest.mark.parametrize("baselines", [2, 3, 6])
def test_the_same_job_against_itself_saves_nothing(baselines: int) -> None:
    assert inside(baselines) >= 0.91


def test_one_baseline_cannot_tell_how_runs_differ() -> None:
    """Whence the words "differences between runs are not in the interval"."""
    assert inside(1) < 0.5


def test_two_baselines_by_hand() -> None:
    """Means 99 and 101: s = 1.4142, t of one degree of freedom 12.706, so 12.706 x 0.014142 x sqrt(1.5) of 0.9."""
    found = ratio_to_runs(np.full(10, 90.0), [np.full(10, 99.0), np.full(10, 101.0)])
    assert found is not None and found.high is not None
    assert found.value == pytest.approx(0.9)
    assert found.high - found.value == pytest.approx(0.9 * 12.706 * 0.0141421 * np.sqrt(1.5), rel=1e-4)


def test_baselines_that_agree_by_chance_do_not_narrow_the_interval() -> None:
    random = np.random.default_rng(1)
    old, new = run(random, 1.0, 40), run(random, 0.9, 40)
    one, two = ratio_to_runs(new, [old]), ratio_to_runs(new, [old, old])
    assert one is not None and one.high is not None and two is not None and two.high is not None
    assert two.high - two.value > 0.7 * (one.high - one.value)


def test_what_was_not_read_or_is_zero_gives_no_ratio() -> None:
    nothing, zero, some = np.full(5, np.nan), np.zeros(5), np.ones(5)
    assert ratio_to_runs(some, [some, nothing]) is None
    assert ratio_to_runs(some, [zero]) is None
    assert ratio_to_runs(nothing, [some]) is None
