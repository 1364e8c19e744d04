"""Pruned sums against the full product."""

from itertools import product

import numpy as np
import pytest

from energyopt.planner.composition.minkowski import Part, minkowski_front, pareto_indices


def _parts(seed: int, sizes: tuple[int, ...], *, digits: int | None = None) -> list[Part]:
    rng = np.random.default_rng(seed)
    parts = []
    for size in sizes:
        time_s, energy_j = rng.uniform(1, 2, size), rng.uniform(-1, 3, size)
        if digits is not None:  # many equal times and energies
            time_s, energy_j = time_s.round(digits), energy_j.round(digits)
        parts.append(Part(time_s=time_s, energy_j=energy_j))
    return parts


def _brute_force(parts: list[Part]) -> list[tuple[float, float]]:
    """The non-dominated sums of the full product, summed in the same order."""
    sums = set()
    for picks in product(*(range(len(part.time_s)) for part in parts)):
        time_s = energy_j = 0.0
        for part, pick in zip(parts, picks, strict=True):
            time_s, energy_j = part.time_s[pick] + time_s, part.energy_j[pick] + energy_j
        sums.add((float(time_s), float(energy_j)))
    front: list[tuple[float, float]] = []
    for time_s, energy_j in sorted(sums):
        if not front or energy_j < front[-1][1]:
            front.append((time_s, energy_j))
    return front


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("sizes", [(1,), (5,), (3, 4), (4, 1, 5, 3), (3, 3, 3, 3, 3)])
@pytest.mark.parametrize("digits", [None, 1])
def test_the_front_is_that_of_the_full_product(seed: int, sizes: tuple[int, ...], digits: int | None) -> None:
    parts = _parts(seed, sizes, digits=digits)
    front = minkowski_front(parts)
    assert list(zip(front.time_s.tolist(), front.energy_j.tolist(), strict=True)) == _brute_force(parts)


@pytest.mark.parametrize("seed", range(5))
def test_every_point_is_the_sum_of_the_choices_behind_it(seed: int) -> None:
    parts = _parts(seed, (6, 7, 5, 4))
    front = minkowski_front(parts)
    every = np.arange(len(front.time_s))
    picks = front.choices(every)
    for point, own in zip(every, picks, strict=True):
        time_s = sum(part.time_s[pick] for part, pick in zip(parts, own, strict=True))
        energy_j = sum(part.energy_j[pick] for part, pick in zip(parts, own, strict=True))
        assert time_s == pytest.approx(front.time_s[point], rel=1e-14)
        assert energy_j == pytest.approx(front.energy_j[point], rel=1e-12, abs=1e-14)


def test_sifting_loses_nothing_where_sums_are_many() -> None:
    """Convex fronts of 60 keep thousands of points, so that sums are sifted: compared with sorting all of them."""
    share = np.linspace(0, 1, 60)
    rng = np.random.default_rng(3)
    parts = [
        Part(time_s=1 + share + 1e-3 * rng.uniform(size=60), energy_j=(1 - share) ** 2 * rng.uniform(1, 2))
        for _ in range(3)
    ]
    front = minkowski_front(parts)
    time_s = (parts[0].time_s[:, None, None] + parts[1].time_s[:, None] + parts[2].time_s).ravel()
    energy_j = (parts[0].energy_j[:, None, None] + parts[1].energy_j[:, None] + parts[2].energy_j).ravel()
    order = np.lexsort((energy_j, time_s))
    least = np.minimum.accumulate(energy_j[order])
    kept = order[np.concatenate(([True], energy_j[order][1:] < least[:-1]))]
    assert len(front.time_s) == pytest.approx(
        len(kept), abs=5
    )  # sums in another order differ in the last bit
    assert np.interp(time_s[kept], front.time_s, front.energy_j) == pytest.approx(energy_j[kept], rel=1e-9)


def test_of_equal_points_the_first_stays() -> None:
    time_s, energy_j = np.array([2.0, 1.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0])
    assert pareto_indices(time_s, energy_j).tolist() == [2]
