from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Throttle
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.measurement.window import MOST_IDLE, Conditions, Window, measure_window
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.profile import EnergySource

Scripted = Callable[..., Any]


def measured(bench: Any, kernel: Kernel, timing: Timing, asked: int = 1410, **more: Any) -> Window:
    values = {"source": EnergySource.COUNTER, "power_limit_w": 400.0, "held": True} | more
    conditions = Conditions(sm_clock_mhz=asked, round=3, timing=timing, **values)  # type: ignore[arg-type]
    return measure_window(bench, kernel, conditions)


def test_a_window_gives_the_cost_of_one_run(scripted: Scripted, product: Kernel, timing: Timing) -> None:
    window = measured(scripted(run_s=2e-3), product, timing)
    assert window.usable
    assert (window.kernel, window.round, window.sm_clock_mhz) == ("product", 3, 1410)
    assert window.repeats == pytest.approx(timing.window_s / 2e-3, abs=1)  # the division may be a hair off
    assert window.time_s == pytest.approx(2e-3)
    assert window.energy_j is not None
    assert window.energy_error_j is not None
    assert abs(window.energy_j - 200.0 * 2e-3) <= 2.5 * window.energy_error_j  # the sum of two uniform errors
    assert window.energy_error_j < 0.003 * window.energy_j
    assert (window.temperature_start_c, window.achieved_sm_clock_mhz, window.throttle) == (50.0, 1410, 0)


def test_a_kernel_longer_than_a_window_runs_three_times(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    window = measured(scripted(run_s=1.7), product, timing)
    assert (window.repeats, window.time_s) == (3, pytest.approx(1.7))


@pytest.mark.parametrize("bit", ["HW_SLOWDOWN", "SW_THERMAL", "HW_THERMAL", "HW_POWER_BRAKE"])
def test_throttling_that_depends_on_the_room_is_rejected(
    bit: str, scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted(throttle=lambda _: Throttle[bit] | Throttle.SW_POWER_CAP)
    for held in (True, False):
        window = measured(bench, product, timing, held=held)
        assert window.rejected == f"throttled by {bit}"
        assert window.energy_j is not None  # for a person to look at


def test_a_power_cap_is_no_reason_with_or_without_a_lower_clock(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    for clock in (1410, 1200):
        bench = scripted(throttle=lambda _: Throttle.SW_POWER_CAP, clock_mhz=clock)
        window = measured(bench, product, timing)
        assert window.usable
        assert (window.achieved_sm_clock_mhz, window.throttle) == (clock, Throttle.SW_POWER_CAP)


@pytest.mark.parametrize("achieved", [1200, 1600])
def test_a_clock_that_is_not_held_is_rejected_with_both_clocks(
    achieved: int, scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    window = measured(scripted(clock_mhz=achieved), product, timing)
    assert window.rejected == f"asked for 1410 MHz, ran at {achieved} MHz, and no throttling explains it"


def test_a_power_cap_does_not_explain_a_higher_clock(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted(clock_mhz=1600, throttle=lambda _: Throttle.SW_POWER_CAP)
    assert not measured(bench, product, timing).usable


@pytest.mark.parametrize(("achieved", "usable"), [(1382, True), (1381, False), (1438, True), (1439, False)])
def test_two_percent_of_the_clock_are_allowed(
    achieved: int, usable: bool, scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    assert measured(scripted(clock_mhz=achieved), product, timing).usable is usable


def test_a_clock_that_was_not_set_is_never_a_reason(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    assert measured(scripted(clock_mhz=300), product, timing, held=False).usable


def test_a_clock_that_cannot_be_read_is_no_reason(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    window = measured(scripted(clock_mhz=Absent("not supported")), product, timing)
    assert window.usable
    assert window.achieved_sm_clock_mhz is None


def test_a_gpu_that_waited_for_the_host_is_not_believed(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    """Its idle time would be taken for the kernel's; unless nothing states what code of the user's computes."""
    bench = scripted()
    bench.last_idle_share = MOST_IDLE
    assert measured(bench, product, timing).usable
    bench.last_idle_share = MOST_IDLE + 0.1
    window = measured(bench, product, timing)
    assert window.rejected is not None
    assert "the GPU waited for the host" in window.rejected
    assert window.idle_share == MOST_IDLE + 0.1
    assert measured(bench, replace(product, flops=0.0, memory_bytes=0.0), timing).usable


def test_readings_that_were_lost_are_counted(scripted: Scripted, product: Kernel, timing: Timing) -> None:
    """The clock at each of ten looks, and the counter for a while: none of them became 0."""
    assert measured(scripted(), product, timing).lost_readings == 0
    blind = measured(scripted(clock_mhz=Absent("not supported")), product, timing)
    assert blind.lost_readings == pytest.approx(10, abs=2)
    lost: list[float] = []

    def counter(now_s: float) -> float | Absent:
        if len(lost) < 7 and now_s > 0.3:
            lost.append(now_s)
            return Absent("out of range")
        return 200.0 * now_s

    window = measured(scripted(counter=counter), product, timing)
    assert (window.lost_readings, window.rejected) == (7, None)
    assert window.energy_j == pytest.approx(0.2, rel=0.01)


def test_a_restarted_counter_leaves_time_but_no_energy(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    window = measured(
        scripted(counter=lambda now_s: 200 * now_s - (100 if now_s > 0.4 else 0)), product, timing
    )
    assert window.rejected == "the energy counter went back: the driver restarted it"
    assert (window.energy_j, window.time_s) == (None, pytest.approx(1e-3))


def test_ranks_of_a_collective_run_it_as_often_as_they_agree_on(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    conditions = Conditions(
        sm_clock_mhz=1410, round=0, source=EnergySource.COUNTER, power_limit_w=400.0, timing=timing
    )
    window = measure_window(scripted(), product, conditions, agree=lambda repeats: repeats + 100)
    assert window.repeats == pytest.approx(600, abs=1)


def test_a_clock_still_changing_in_the_warm_up_does_not_shorten_the_window(product: Kernel) -> None:
    """From 705 to 1410 MHz within 25 ms of 100 ms: the mean run of the whole warm-up would be a tenth too long."""
    bench = open_simulated_bench("a100-sxm4-80gb", noise=False)
    small = replace(product, flops=product.flops / 8, memory_bytes=product.memory_bytes / 8)
    timing = Timing(tick_s=0.1, window_s=10.0, warm_up_s=0.1, fine_s=6.25e-3)
    bench.device.lock_sm_clock(705)
    run_s = bench.run(small, 100) / 100
    bench.device.lock_sm_clock(1410)
    conditions = Conditions(
        sm_clock_mhz=1410, round=0, source=EnergySource.COUNTER, power_limit_w=400.0, timing=timing
    )
    window = measure_window(bench, small, conditions, run_s=run_s / 2)
    assert window.repeats * window.time_s == pytest.approx(10.0, rel=0.02)
    assert window.energy_error_j is not None
    assert window.energy_j is not None
    assert window.energy_error_j < 6.25e-3 / 9.8 * window.energy_j
