"""The model: what it predicts, and what partitions learn from each other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.profiler.search.space import Space
from energyopt.profiler.search.surrogate import NOISE, Surrogate

MakeSpace = Callable[..., Space]


@pytest.fixture
def data(formula: Any, make_space: MakeSpace) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """`data(number, compute)`: rows and outputs of all overlapped points of a partition."""

    def make(number: int, compute: float) -> tuple[np.ndarray, np.ndarray]:
        space = make_space(f"layer {number}", sms=(4, 8, 12, 16, 24))
        logs = np.log(formula(compute=compute).costs(space))
        clocks = len(space.sequential)
        rows = np.column_stack((space.coordinates(), np.full(len(space), float(number))))
        return rows[clocks:], (logs - logs[np.arange(len(space)) % clocks])[clocks:]

    return make


def test_it_knows_what_it_was_told(data: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    rows, values = data(0, 1e6)
    told = np.arange(0, len(rows), 7)
    model = Surrogate(rows[told], values[told], 0)
    mean, variance = model.predict(rows[told])
    assert np.abs(mean - values[told]).max() < 3 * NOISE
    assert (np.sqrt(variance) < 2 * NOISE).all()
    left = np.setdiff1d(np.arange(len(rows)), told)
    mean, variance = model.predict(rows[left])
    assert np.abs(mean - values[left]).mean() < 0.03
    assert np.sqrt(variance).mean() > NOISE / 2


def test_covariances_agree_with_variances(data: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    rows, values = data(0, 1e6)
    model = Surrogate(rows[::9], values[::9], 0)
    covariance, variance = model.covariance(rows[:20]), model.predict(rows[:20])[1]
    assert covariance.shape == (2, 20, 20)
    for output in range(2):
        assert np.diagonal(covariance[output]) == pytest.approx(variance[:, output], rel=1e-6, abs=1e-12)
        assert np.linalg.eigvalsh(covariance[output]).min() > -1e-9


def test_the_same_data_and_seed_give_the_same_model(
    data: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> None:
    rows, values = data(0, 1e6)
    first, again = (Surrogate(rows[::9], values[::9], 0).predict(rows) for _ in range(2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])


def test_what_is_seen_of_one_partition_tells_of_another(
    data: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> None:
    """Of the second only four points are known: with many of the first, much more is known of it."""
    (rows, values), (other_rows, other_values) = data(0, 1e6), data(1, 9e5)
    few = np.array([3, 60, 111, 170])
    alone = Surrogate(other_rows[few], other_values[few], 0)
    joined = Surrogate(
        np.concatenate((rows[::4], other_rows[few])), np.concatenate((values[::4], other_values[few])), 0
    )
    errors = [np.abs(model.predict(other_rows)[0] - other_values).mean() for model in (alone, joined)]
    assert errors[1] < 0.5 * errors[0]


def test_a_few_points_that_are_all_alike_are_no_failure(
    data: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> None:
    rows, _ = data(0, 1e6)
    mean, variance = Surrogate(rows[:3], np.full((3, 2), -0.1), 0).predict(rows)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
