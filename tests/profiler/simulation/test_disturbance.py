from itertools import pairwise
from statistics import correlation, fmean, stdev

import pytest

from energyopt.profiler.simulation.disturbance import Wander


def test_the_same_seed_gives_the_same_draws_and_another_does_not() -> None:
    one, same, other = (Wander(seed, noise=True) for seed in (3, 3, 4))
    cells = [one.next_cell() for _ in range(50)]
    assert [same.next_cell() for _ in range(50)] == cells
    assert [other.next_cell() for _ in range(50)] != cells


def test_looking_changes_no_physics() -> None:
    quiet, watched = Wander(1, noise=True), Wander(1, noise=True)
    for _ in range(20):
        watched.next_reading()
        assert watched.next_cell() == quiet.next_cell()
        assert watched.next_run() == quiet.next_run()


def test_power_wanders_by_its_stated_deviation_and_for_its_stated_time() -> None:
    wander = Wander(0, noise=True)
    cells = [wander.next_cell() for _ in range(20_000)]
    assert fmean(cells) == pytest.approx(1.0, abs=2e-3)
    assert stdev(cells) == pytest.approx((0.006**2 + 0.003**2 + 0.004**2) ** 0.5, rel=0.1)
    # neighbours share exp(-0.1/0.3) = 0.717 of the fast part, all of the slow one, nothing of the white one
    expected = (0.717 * 0.006**2 + 0.003**2) / (0.006**2 + 0.003**2 + 0.004**2)
    assert correlation(*zip(*pairwise(cells), strict=True)) == pytest.approx(expected, abs=0.06)


def test_speed_and_readings_vary_independently_by_their_stated_deviations() -> None:
    wander = Wander(0, noise=True)
    runs = [wander.next_run() for _ in range(5000)]
    readings = [wander.next_reading() for _ in range(5000)]
    assert [fmean(runs), fmean(readings)] == pytest.approx([1.0, 1.0], abs=5e-4)
    assert [stdev(runs), stdev(readings)] == pytest.approx([0.003, 0.005], rel=0.05)


def test_without_noise_nothing_varies() -> None:
    wander = Wander(0, noise=False)
    assert {wander.next_cell() for _ in range(9)} | {wander.next_run(), wander.next_reading()} == {1.0}
    assert wander.next_latency_s((0.005, 0.025)) == pytest.approx(0.015)


def test_latencies_lie_in_their_range() -> None:
    wander = Wander(0, noise=True)
    latencies = [wander.next_latency_s((0.005, 0.025)) for _ in range(500)]
    assert 0.005 <= min(latencies) < 0.006
    assert 0.024 < max(latencies) <= 0.025
