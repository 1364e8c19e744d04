"""Fronts and hypervolumes against brute force."""

from itertools import pairwise

import numpy as np
import pytest

from energyopt.profiler.search.front import front_of, hypervolume, planes, seen_reference

RANDOM = np.random.default_rng(7)


def _front(values: np.ndarray) -> set[tuple[float, float]]:
    """By comparing all pairs."""
    return {
        (x, y)
        for x, y in values.tolist()
        if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in values.tolist())
    }


def _volume(values: np.ndarray, reference: np.ndarray) -> float:
    """By the cells of the grid that the points make."""
    xs = sorted({*values[:, 0].tolist(), float(reference[0])})
    ys = sorted({*values[:, 1].tolist(), float(reference[1])})
    return sum(
        (right - left) * (top - bottom)
        for left, right in pairwise(xs)
        for bottom, top in pairwise(ys)
        if right <= reference[0] and top <= reference[1]
        if any(x <= left and y <= bottom for x, y in values.tolist())
    )


@pytest.mark.parametrize("number", range(6))
def test_front_and_hypervolume(number: int) -> None:
    values = np.round(RANDOM.random((3 + 4 * number, 2)), 1 + number % 2)  # with ties
    reference = np.array([0.9, 0.8])
    assert set(map(tuple, front_of(values).tolist())) == _front(values)
    assert hypervolume(values, reference) == pytest.approx(_volume(values, reference))


def test_the_front_is_ordered_and_each_point_once() -> None:
    values = np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [3.0, 1.0]])
    assert front_of(values).tolist() == [[1.0, 2.0], [2.0, 1.0]]


def test_nothing_within_the_reference_point_has_no_volume() -> None:
    assert hypervolume(np.array([[2.0, 0.0]]), np.array([1.0, 1.0])) == 0.0


def test_the_front_of_dynamic_energy_holds_that_of_total_energy() -> None:
    time_s, energy_j = RANDOM.random(200), 50 * RANDOM.random(200)
    dynamic, total = planes(time_s, energy_j, 30.0)
    assert np.allclose(total[:, 1] - dynamic[:, 1], 30.0 * time_s)
    assert _front(total) and {time for time, _ in _front(total)} <= {time for time, _ in _front(dynamic)}


def test_the_reference_point_lies_beyond_all_that_was_seen() -> None:
    values = np.array([[1.0, -2.0], [2.0, -3.0]])
    assert seen_reference(values).tolist() == pytest.approx([2.1, -1.9])
