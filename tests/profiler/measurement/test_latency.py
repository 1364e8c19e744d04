import math
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, State
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.latency import LOOK_S, SET_AFTER_S, SWITCHES, _Switch, switch_latency
from energyopt.profiler.workloads.interface import Kernel


class Direct:
    """Sets clocks without a guard."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self.asked: list[int] = []

    def lock(self, sm_clock_mhz: int) -> None:
        self.asked.append(sm_clock_mhz)
        self._device.lock_sm_clock(sm_clock_mhz)


def test_the_latency_of_a_simulated_board_is_found(stream: Kernel) -> None:
    """Its changes take 5 to 25 ms, evenly spread; looks are a millisecond apart."""
    medians, longest = [], []
    for seed in range(10):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=seed)
        locks = Direct(bench.device)
        found = switch_latency(bench, locks, stream, (1410, 1005))
        assert found is not None
        assert 0.005 <= found.median_s <= found.longest_s <= 0.025 + 2 * LOOK_S
        assert (found.switches, found.missed) == (SWITCHES, 0)
        assert locks.asked == [1410] + [1005, 1410] * (SWITCHES // 2)
        medians.append(found.median_s)
        longest.append(found.longest_s)
    assert median(medians) == pytest.approx(0.015, abs=0.003)
    assert max(longest) > 0.022


@pytest.mark.parametrize("clocks_mhz", [(1410, 1395), (300, 285)])
def test_two_neighbouring_clocks_are_told_apart(clocks_mhz: tuple[int, int], stream: Kernel) -> None:
    """One step of 15 MHz is 1 % of 1410 MHz: the clock before the change is no sign that it has landed."""
    medians = []
    for seed in range(5):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=seed)
        found = switch_latency(bench, Direct(bench.device), stream, clocks_mhz)
        assert found is not None
        assert 0.005 <= found.median_s <= found.longest_s <= 0.025 + 2 * LOOK_S
        assert (found.switches, found.missed) == (SWITCHES, 0)
        medians.append(found.median_s)
    assert median(medians) == pytest.approx(0.015, abs=0.004)


def test_a_kernel_shorter_than_its_launch_loads_the_board_for_long_enough(
    scripted: Callable[..., Any], stream: Kernel
) -> None:
    """20 us a run, and 300 us to start any number of them: by its first run alone it would end after 30 ms."""
    bench, lands_after_s = scripted(run_s=20e-6), 0.03
    run, state = bench.run, bench.device.state
    asked: list[tuple[float, int]] = [(-1.0, 1410)]

    def launch_and_run(kernel: Kernel, repeats: int, poll: Any = None) -> float:
        bench.sleep(300e-6)
        elapsed_s: float = run(kernel, repeats, poll)
        return 300e-6 + elapsed_s

    def lagging() -> State:
        landed = [clock for at_s, clock in asked if bench.now_s() >= at_s + lands_after_s]
        return replace(state(), sm_clock_mhz=landed[-1])

    bench.run, bench.device.state = launch_and_run, lagging
    bench.device.lock_sm_clock = lambda clock: asked.append((bench.now_s(), clock))
    found = switch_latency(bench, Direct(bench.device), stream, (1410, 1005))
    assert found is not None
    assert (found.switches, found.missed) == (SWITCHES, 0)
    assert lands_after_s <= found.median_s <= found.longest_s <= lands_after_s + 2 * LOOK_S


def test_the_latency_without_noise_is_the_middle(stream: Kernel) -> None:
    bench = open_simulated_bench("a100-sxm4-80gb", noise=False)
    found = switch_latency(bench, Direct(bench.device), stream, (1410, 1005))
    assert found is not None
    assert found.median_s == pytest.approx(0.015, abs=1.1 * LOOK_S)


@pytest.mark.parametrize("clock", [1300, Absent("not supported")])
def test_a_board_that_never_moves_has_no_latency(
    clock: Any, scripted: Callable[..., Any], stream: Kernel
) -> None:
    class Deaf:
        def lock_sm_clock(self, sm_clock_mhz: int) -> None:
            pass

    bench = scripted(clock_mhz=clock)
    assert switch_latency(bench, Direct(Deaf()), stream, (1410, 1005)) is None


def test_changes_that_never_show_are_counted(product: Kernel) -> None:
    """Under a limit of 250 W the product never reaches 1410 MHz: every other change is missed."""
    bench = open_simulated_bench("a100-sxm4-80gb", power_limit_w=250.0, noise=False)
    found = switch_latency(bench, Direct(bench.device), product, (1410, 705))
    assert found is not None
    assert (found.switches, found.missed) == (SWITCHES // 2, SWITCHES // 2)


class BlockingBoard:
    """A board in a time of its own: a set blocks for `takes_s` and the clock is there then; a look takes 0.1 ms."""

    def __init__(self, takes_s: float) -> None:
        self.time_s, self.clock_mhz, self._takes_s = 0.0, 1410, takes_s

    def now_s(self) -> float:
        return self.time_s

    def lock(self, sm_clock_mhz: int) -> None:
        self.time_s += self._takes_s
        self.clock_mhz = sm_clock_mhz

    def state(self) -> State:
        self.time_s += 1e-4
        return State(sm_clock_mhz=self.clock_mhz, temperature_c=Absent("none"), throttle=Absent("none"))


@pytest.mark.parametrize("takes_s", [0.010, 0.025, 0.046])
def test_a_bench_that_pauses_as_long_as_a_set_took_adds_nothing(takes_s: float) -> None:
    """The visit that sets the clock looks at once; were the next visit to look, it would come after 2 x takes_s."""
    board: Any = BlockingBoard(takes_s)
    switch = _Switch(board, board, (1410, 1005), board.now_s)
    assert switch(board.now_s()) == SET_AFTER_S
    board.time_s = SET_AFTER_S
    assert switch(board.now_s()) == math.inf
    assert switch.latency_s == pytest.approx(takes_s + 1e-4)
