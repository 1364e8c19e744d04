"""What the engine proposes, and that it finds fronts; true costs are a formula or the simulation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.clocks import choose_clocks
from energyopt.profiler.overlapped import overlapped
from energyopt.profiler.search.engine import Proposal, Search
from energyopt.profiler.search.front import hypervolume, planes
from energyopt.profiler.search.space import Cost, Space
from energyopt.profiler.search.spaces_of import searched_partitions
from energyopt.profiler.workloads.open import load_workload

MakeSpace = Callable[..., Space]
WAIT_W = 80.0
SMALL = {"sms": (4, 12), "clocks": (1400, 1150, 900)}


class Bench:
    """Gives true costs with a noise of 0.15 % of the time and 0.3 % of the energy, as five windows have it."""

    def __init__(self, costs: list[np.ndarray], seed: int = 0) -> None:
        self.costs = costs
        self._random = np.random.default_rng(seed)
        self.seen: list[Proposal] = []

    def measure(self, search: Search, proposals: list[Proposal]) -> None:
        for one in proposals:
            time_s, energy_j = self.costs[one.space][one.point]
            noise = 1 + self._random.standard_normal(2) * (0.0015, 0.003)
            search.observe(one.space, one.point, Cost(time_s * noise[0], energy_j * noise[1]))
        self.seen += proposals

    def run(self, search: Search, points: int, each: int = 4) -> list[Proposal]:
        self.measure(search, search.first())
        turn = 0
        while search.measured < points:
            turn += 1
            self.measure(search, search.propose(turn, min(each, points - search.measured)))
        return self.seen


@pytest.fixture
def begun(formula: Any, make_space: MakeSpace) -> Callable[..., tuple[Search, Bench]]:
    """A search of one small space, with its first points measured."""

    def begin(seed: int = 0, without: tuple[int, ...] = ()) -> tuple[Search, Bench]:
        space = make_space(**SMALL)
        search, bench = Search([space], WAIT_W, seed), Bench([formula().costs(space)])
        bench.measure(search, [one for one in search.first() if one.point not in without])
        for point in without:
            search.observe(0, point, None)
        return search, bench

    return begin


def _share(costs: np.ndarray, points: list[int], wait_w: float) -> float:
    """The lesser share of both hypervolumes."""
    found = []
    for values in planes(costs[:, 0], costs[:, 1], wait_w):
        worst = values.max(axis=0)
        found.append(hypervolume(values[points], worst) / hypervolume(values, worst))
    return min(found)


def _simulated() -> tuple[Space, np.ndarray, float]:
    """Attention of llama-3.2-3b, tensor degree 8, on a simulated A100: its space, all costs, the wait power."""
    bench = open_simulated_bench("a100-sxm4-80gb", noise=False)
    shape = {"tensor_parallel": 8, "microbatch_size": 8, "sequence_length": 4096}
    workload = overlapped("llama-3.2-3b", load_workload("llama-3.2-3b", shape), None)
    clocks = choose_clocks(None, bench.device.supported_sm_clocks_mhz()).chosen_mhz
    kernels = {one.name: one for one in workload.kernels()}

    def time_of(name: str, clock: int) -> float:
        return bench.true_cost(kernels[name], clock, 55.0)[0]

    one = searched_partitions(workload, clocks, time_of)[0]
    whole = [kernel for kernel in one.kernels if kernel is not None]
    costs = [bench.true_cost(kernel, clock, 55.0) for kernel in whole for clock in clocks]
    return one.space, np.array(costs), bench.true_wait_power_w(clocks[0], 55.0)


def test_a_tenth_of_the_points_finds_the_front() -> None:
    """And random choice of as many leaves five times as much, whether or not sequential execution is among them."""
    space, costs, wait_w = _simulated()
    budget, first = len(space) // 10, list(space.sequential)
    shares, random, beside = [], [], []
    for seed in range(2):
        bench = Bench([costs], seed)
        points = [one.point for one in bench.run(Search([space], wait_w, seed), budget, 8)]
        assert len(set(points)) == len(points) == budget
        shares.append(_share(costs, points, wait_w))
        generator = np.random.default_rng(seed)
        random.append(_share(costs, generator.choice(len(space), budget, replace=False).tolist(), wait_w))
        more = generator.choice(range(len(first), len(space)), budget - len(first), replace=False).tolist()
        beside.append(_share(costs, first + more, wait_w))
    assert np.median(shares) >= 0.99
    assert 1 - np.median(shares) < 0.2 * (1 - max(np.median(random), np.median(beside)))


def test_the_same_seed_and_measurements_propose_the_same(begun: Callable[..., tuple[Search, Bench]]) -> None:
    found = [begun(seed)[0].propose(1, 5) for seed in (0, 0)]
    assert found[0] == found[1]
    assert begun(0)[0].propose(2, 5) != [] != begun(1)[0].propose(1, 5)


def test_proposals_are_new_points_and_the_best_comes_first(
    begun: Callable[..., tuple[Search, Bench]],
) -> None:
    search, bench = begun()
    measured = {one.point for one in bench.seen}
    found = search.propose(1, 6)
    points = [one.point for one in found]
    assert len(set(points)) == 6
    assert not measured & set(points)
    gains = [one.gain or 0.0 for one in found]
    assert all(gain >= 0 for gain in gains)
    assert gains[0] == max(gains)


def test_all_points_can_be_measured_and_then_nothing_is_left(
    begun: Callable[..., tuple[Search, Bench]],
) -> None:
    search, bench = begun()
    bench.measure(search, search.propose(1, search.points))
    assert search.measured == search.points
    assert search.propose(2, 4) == []


def test_a_point_without_a_number_is_not_tried_again(begun: Callable[..., tuple[Search, Bench]]) -> None:
    search, _ = begun()
    (best,) = search.propose(1, 1)
    search.observe(best.space, best.point, None)
    left = search.propose(2, search.points)
    assert best.point not in {one.point for one in left}
    assert len(left) == search.points - search.measured


def test_a_clock_without_a_sequential_number_takes_its_neighbours(
    begun: Callable[..., tuple[Search, Bench]],
) -> None:
    search, _ = begun(without=(1,))
    assert {search.spaces[0].clock_mhz(one.point) for one in search.propose(1, 15)} == {1400, 1150, 900}


def test_without_any_sequential_number_nothing_is_proposed(
    begun: Callable[..., tuple[Search, Bench]],
) -> None:
    search, _ = begun(without=(0, 1, 2))
    assert search.propose(1, 4) == []
