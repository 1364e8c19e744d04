from dataclasses import replace

import pytest

from energyopt.applier.devices.interface import PowerMeaning, Throttle
from energyopt.profiler.simulation.board import Board
from energyopt.profiler.simulation.costs import kernel_costs, standing_costs
from energyopt.profiler.simulation.disturbance import Wander
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.interface import Kernel

LATENCY_S = 0.015  # the middle of 5 to 25 ms


def board_of(spec: GpuSpec, *, limit_w: float = 1e6, noise: bool = False, seed: int = 0) -> Board:
    return Board(spec, limit_w, Wander(seed, noise))


def test_the_counter_is_the_exact_energy_at_each_tick(a100: GpuSpec, product: Kernel) -> None:
    board = board_of(a100, limit_w=300.0, noise=True)
    board.take_load(kernel_costs(a100, product))
    tick_s = a100.sensors.counter_tick_s
    for tick in range(1, 60):
        board.advance(tick * tick_s * (1 + 1e-12))
        at_tick_j = board.energy_j
        assert board.counter_j == pytest.approx(at_tick_j, abs=1.1e-3)
        board.advance((tick + 0.9) * tick_s)
        assert board.energy_j > at_tick_j
        assert board.counter_j == pytest.approx(at_tick_j, abs=1.1e-3)


def test_how_time_is_cut_up_changes_nothing(a100: GpuSpec, product: Kernel) -> None:
    whole, cut = (board_of(a100, limit_w=350.0, noise=True) for _ in range(2))
    for board, steps in ((whole, 1), (cut, 777)):
        board.take_load(kernel_costs(a100, product))
        board.request_clock(70)
        for step in range(steps):
            board.advance(3.3 * (step + 1) / steps)
    assert cut.energy_j == pytest.approx(whole.energy_j, rel=1e-5)
    assert cut.temperature_c == pytest.approx(whole.temperature_c, rel=1e-5)


def test_work_ends_when_its_runs_are_done(a100: GpuSpec, product: Kernel) -> None:
    costs = kernel_costs(a100, product)
    board = board_of(a100)
    board.take_load(costs)
    assert board.advance(1e9, 250.0) == 0.0
    assert board.now_s == pytest.approx(250.0 / costs.runs_per_s[-1])
    assert board.energy_j / board.now_s == pytest.approx(costs.power_w[-1] + costs.leakage_w[-1], rel=0.05)


def test_a_clock_holds_after_its_latency_and_not_before(a100: GpuSpec, product: Kernel) -> None:
    board = board_of(a100)
    board.take_load(kernel_costs(a100, product))
    board.request_clock(0)
    board.advance(LATENCY_S * 0.99)
    assert board.sm_clock_mhz == 1410
    board.advance(LATENCY_S * 1.01)
    assert board.sm_clock_mhz == 210


def test_requests_take_effect_in_their_order(a100: GpuSpec) -> None:
    for seed in range(20):
        board = board_of(a100, noise=True, seed=seed)
        for index in (60, 10, 40, 20):
            board.request_clock(index)
        board.advance(0.2)
        assert board.sm_clock_mhz == a100.clocks.supported_mhz()[20]


def test_a_board_without_a_lock_runs_at_the_top_and_idles_at_the_bottom(
    a100: GpuSpec, product: Kernel
) -> None:
    board = board_of(a100)
    board.request_clock(30)
    board.advance(0.1)
    board.request_clock(None)
    board.take_load(kernel_costs(a100, product))
    board.advance(0.2)
    assert (board.sm_clock_mhz, board.throttle) == (1410, Throttle(0))
    board.rest()
    assert (board.sm_clock_mhz, board.throttle) == (210, Throttle.GPU_IDLE)


def test_a_power_cap_holds_the_limit_and_shows(a100: GpuSpec, product: Kernel) -> None:
    board = board_of(a100, limit_w=300.0, noise=True)
    board.take_load(kernel_costs(a100, product))
    board.advance(5.0)
    assert board.throttle == Throttle.SW_POWER_CAP
    assert 900 < board.sm_clock_mhz < 1300
    assert board.energy_j / 5.0 == pytest.approx(300.0)


def test_a_hot_board_slows_itself_down_and_stays_at_its_limit(a100: GpuSpec, product: Kernel) -> None:
    hot = replace(a100, thermal=replace(a100.thermal, ambient_c=65.0))
    board = board_of(hot, limit_w=400.0)
    board.take_load(kernel_costs(hot, product))
    board.advance(200.0)
    assert board.temperature_c == pytest.approx(85.0, abs=0.5)
    before_j = board.energy_j
    board.advance(230.0)
    assert (board.energy_j - before_j) / 30.0 == pytest.approx((85.0 - 65.0) / 0.085, rel=0.02)
    seen = Throttle(0)
    for step in range(40):
        board.advance(230.0 + 0.1 * step)
        seen |= board.throttle
    assert Throttle.SW_THERMAL in seen


def test_the_temperature_follows_the_power(a100: GpuSpec, product: Kernel) -> None:
    board = board_of(a100, limit_w=400.0)
    cold_c = board.temperature_c
    board.take_load(kernel_costs(a100, product))
    board.advance(300.0)  # 20 time constants
    assert board.temperature_c == pytest.approx(30.0 + 0.085 * 400.0, abs=0.1)
    board.rest()
    board.advance(600.0)
    assert board.temperature_c == pytest.approx(cold_c, abs=1.5)


def test_an_average_reading_lags_by_a_second_and_an_instant_one_does_not(
    a100: GpuSpec, product: Kernel
) -> None:
    load = kernel_costs(a100, product)
    for meaning, share in ((PowerMeaning.INSTANT, 1.0), (PowerMeaning.AVERAGE_1S, 0.25)):
        sensors = replace(a100.sensors, power_meaning=meaning)
        board = board_of(replace(a100, sensors=sensors), limit_w=400.0)
        board.advance(5.0)
        idle_w = board.read_power_w()
        board.take_load(load)
        board.advance(5.25)
        assert board.read_power_w() == pytest.approx(idle_w + share * (400.0 - idle_w), rel=1e-3)
        board.advance(6.5)
        assert board.read_power_w() == pytest.approx(400.0, rel=1e-3)


def test_waiting_goes_on_for_as_long_as_asked(a100: GpuSpec) -> None:
    board = board_of(a100)
    board.take_load(standing_costs(a100, a100.power.wait_share))
    board.advance(12.345)
    assert (board.now_s, board.throttle) == (12.345, Throttle(0))
