"""Intervals: the textbook's for independent iterations, and their coverage for correlated ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.planner.verification.statistics import Estimate, deviation, estimate, ratio

T_4 = 2.7764451  # two-sided 95 % quantile of Student's t with 4 degrees of freedom, from tables
REPETITIONS = 200


def correlated(random: np.random.Generator, n: int, phi: float) -> "np.typing.NDArray[np.float64]":
    """A stationary first-order autoregressive series of variance 1."""
    shocks = random.standard_normal(n) * math.sqrt(1 - phi**2)
    series = np.empty(n)
    series[0] = random.standard_normal()
    for step in range(1, n):
        series[step] = phi * series[step - 1] + shocks[step]
    return series


def test_few_iterations_give_students_interval() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found is not None
    assert (found.mean, found.iterations, found.effective) == (3.0, 5, 5.0)
    assert found.std == pytest.approx(math.sqrt(2.5))
    assert found.half_width == pytest.approx(T_4 * math.sqrt(2.5 / 5))


@pytest.mark.parametrize("values", [[2.0], [2.0, 4.0]])
def test_fewer_than_three_iterations_give_a_mean_alone(values: list[float]) -> None:
    found = estimate(values)
    assert found == Estimate(mean=sum(values) / len(values), iterations=len(values))


def test_what_was_not_read_is_left_out() -> None:
    assert estimate([]) is None
    assert estimate([float("nan")]) is None
    found = estimate([1.0, float("nan"), 3.0])
    assert found == Estimate(mean=2.0, iterations=2)


def test_equal_iterations_have_no_width() -> None:
    found = estimate([4.0] * 20)
    assert found is not None
    assert (found.std, found.half_width) == (0.0, 0.0)


@pytest.mark.parametrize(("n", "phi"), [(5, 0.0), (30, 0.0), (30, 0.6), (60, 0.5), (300, 0.8)])
def test_intervals_of_correlated_iterations_hold_the_truth(n: int, phi: float) -> None:
    random = np.random.default_rng(n)
    inside = 0
    for _ in range(REPETITIONS):
        found = estimate(100 + correlated(random, n, phi))
        assert found is not None and found.half_width is not None
        inside += abs(found.mean - 100) <= found.half_width
    assert 0.90 * REPETITIONS <= inside <= 0.99 * REPETITIONS


@pytest.mark.parametrize(("n", "phi"), [((4, 4), 0.0), ((20, 12), 0.0), ((80, 50), 0.5)])
def test_intervals_of_a_ratio_hold_the_truth(n: tuple[int, int], phi: float) -> None:
    """A saving of 12 % between runs whose iterations differ by 1 and by 2 %."""
    random = np.random.default_rng(n[0])
    inside = 0
    for _ in range(REPETITIONS):
        new = estimate(88 * (1 + 0.01 * correlated(random, n[0], phi)))
        old = estimate(100 * (1 + 0.02 * correlated(random, n[1], phi)))
        assert new is not None and old is not None
        found = ratio(new, old)
        assert found.low is not None and found.high is not None
        inside += found.low <= 0.88 <= found.high
    assert 0.90 * REPETITIONS <= inside <= 0.99 * REPETITIONS


def test_correlation_widens_and_negative_correlation_does_not_narrow() -> None:
    slow = estimate(np.repeat(np.arange(10.0), 10))
    turning = estimate([1.0, 2.0] * 50)
    assert slow is not None and turning is not None
    assert slow.effective is not None and slow.effective < 15
    assert turning.effective == 100


def test_without_an_interval_there_is_none() -> None:
    one, other = Estimate(mean=1.0, iterations=1), Estimate(mean=2.0, iterations=2)
    assert ratio(one, other).low is None
    assert deviation(one, 2.0).high is None
    assert deviation(one, 2.0).value == -0.5


@given(st.lists(st.floats(1.0, 1e3), min_size=3, max_size=40), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    one, other = estimate(values), estimate([value * factor for value in values])
    assert one is not None and other is not None
    assert one.half_width is not None and other.half_width is not None
    assert other.mean == pytest.approx(one.mean * factor)
    assert other.half_width == pytest.approx(one.half_width * factor, rel=1e-6, abs=1e-6 * one.mean * factor)
