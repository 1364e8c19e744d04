"""Thinned fronts and the error that they state."""

import numpy as np
import pytest

from energyopt.planner.composition.thinning import thinned_to


@pytest.mark.parametrize("count", [1, 2, 7, 300])
@pytest.mark.parametrize("most", [1, 2, 5, 64])
@pytest.mark.parametrize("seed", range(3))
def test_a_faster_point_stands_for_each_that_is_left_out(count: int, most: int, seed: int) -> None:
    energy_j = np.sort(np.random.default_rng(seed).uniform(-5, 5, count))[::-1].copy()
    corners = np.unique(np.random.default_rng(seed + 10).integers(0, count, 2))
    kept, error_j = thinned_to(energy_j, corners, most)
    assert len(kept) <= max(most, len(corners) + 1)
    assert kept[0] == 0, "the fastest always stays"
    assert set(corners.tolist()) <= set(kept.tolist())
    for point in range(count):
        stands_in = kept[kept <= point][-1]
        assert energy_j[stands_in] - energy_j[point] <= error_j + 1e-12


def test_the_error_is_the_least_that_is_enough() -> None:
    """Steps of 1 J from 10 to 1: of four points that include the last, each stands for at most two, 2 J dearer."""
    kept, error_j = thinned_to(np.arange(10.0, 0.0, -1.0), np.array([9]), 4)
    assert len(kept) == 4
    assert error_j == pytest.approx(2.0, rel=1e-6)


def test_nothing_is_left_out_where_nothing_need_be() -> None:
    kept, error_j = thinned_to(np.array([3.0, 2.0, 1.0]), np.array([2]), 3)
    assert kept.tolist() == [0, 1, 2]
    assert error_j == 0.0
