import random
from collections.abc import Callable

import pytest

from energyopt.applier.devices.interface import Throttle
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.compose import op_parts
from energyopt.profiler.measurement.early_stop import all_turned, has_turned
from energyopt.profiler.measurement.settings import Settings, Timing, timing_for
from energyopt.profiler.measurement.statistics import Reading
from energyopt.profiler.measurement.sweep import Sweep
from energyopt.profiler.workloads.interface import Workload

Scripted = Callable[..., object]


def curve(*values: float, error: float = 0.0) -> list[Reading]:
    return [Reading(value, error) for value in values]


@pytest.mark.parametrize(
    ("values", "turned"),
    [
        ([100, 95, 90, 95, 96, 97], True),
        ([100, 95, 90, 95, 96], False),  # two after the least
        ([100, 95, 90, 91, 90.4, 97], False),  # the second is not half a percent above
        ([90, 91, 92], False),  # three in all
        ([90, 91, 92, 93], True),  # the highest clock is the best
        ([100, 95, 90, 85, 80], False),
        ([100, 90, 95, 96, 89], False),
        ([-10, -20, -19, -19, -19], True),  # waiting costs more than working
        ([], False),
    ],
)
def test_three_in_a_row_must_be_half_a_percent_above_the_least(values: list[float], turned: bool) -> None:
    assert has_turned(curve(*values)) is turned


@pytest.mark.parametrize(("rise", "turned"), [(5.5, False), (5.8, True)])
def test_a_rise_must_be_four_standard_errors_of_a_difference(rise: float, turned: bool) -> None:
    least, error = 100.0, 1.0  # 4 x sqrt(2) = 5.66
    assert has_turned(curve(least, *[least + rise] * 3, error=error)) is turned


def test_one_op_that_has_not_turned_holds_up_all() -> None:
    done, going = curve(90, 91, 92, 93), curve(90, 89, 88, 87)
    assert all_turned({0: done, 1: done})
    assert not all_turned({0: done, 1: going})
    assert not all_turned({0: done, 1: []})


def test_noise_alone_never_stops() -> None:
    generator = random.Random(5)
    for _ in range(500):
        flat = curve(*[generator.gauss(100.0, 0.6) for _ in range(18)], error=0.6)
        assert not any(has_turned(flat[:count]) for count in range(19))


@pytest.mark.parametrize(
    ("gpu", "highest"), [("a100-sxm4-80gb", 1410), ("a40", 1740), ("h100-sxm5-80gb", 1980)]
)
@pytest.mark.parametrize("wait_power_w", [0.0, 15.0])
def test_a_sweep_stops_beyond_the_minimum_of_the_full_sweep(
    gpu: str, highest: int, wait_power_w: float, workload: Workload, make_sweep: Callable[..., Sweep]
) -> None:
    clocks = tuple(range(highest, 345, -45))
    kernels = {one.name: one for one in workload.kernels()}
    for seed in range(5):
        bench = open_simulated_bench(gpu, seed=seed)
        bench.run(workload.kernels()[0], 20_000)
        timing = timing_for(Settings(clocks_mhz=clocks), 0.1, 0.0)
        sweep = make_sweep(bench, clocks, timing, windows=1, early_stop=True, wait_power_w=wait_power_w)
        measured = sweep.run()
        effective_j = {}
        for clock in clocks:
            costs = [
                (count, bench.true_cost(kernels[name], clock, 55.0))
                for name, count in op_parts(workload.ops[0])
            ]
            effective_j[clock] = sum(count * (one[1] - wait_power_w * one[0]) for count, one in costs)
        best = min(clocks, key=effective_j.__getitem__)
        assert sweep.stopped_at_mhz == measured[-1] == clocks[len(measured) - 1]
        assert best > measured[-1] > clocks[-1]
        assert effective_j[measured[-1]] > 1.005 * effective_j[best]


def test_waiting_as_dear_as_this_board_has_it_leaves_nothing_to_stop_for(
    make_sweep: Callable[..., Sweep],
) -> None:
    """At 84 W the effective energy falls down to the lowest clock."""
    clocks = tuple(range(1410, 345, -45))
    timing = timing_for(Settings(clocks_mhz=clocks), 0.1, 0.0)
    sweep = make_sweep(open_simulated_bench("a100-sxm4-80gb"), clocks, timing, windows=1, early_stop=True)
    assert sweep.run() == clocks
    assert sweep.stopped_at_mhz is None


def test_clocks_without_a_usable_window_do_not_end_a_sweep(
    scripted: Callable[..., object], timing: Timing, make_sweep: Callable[..., Sweep]
) -> None:
    bench = scripted(throttle=lambda now_s: Throttle.HW_SLOWDOWN if now_s < 30.0 else Throttle(0))
    sweep = make_sweep(bench, (1410, 1200, 1005), timing, windows=1, early_stop=True)
    assert sweep.run() == (1410, 1200, 1005)
    assert not sweep.windows["product", 1410][0].usable
    assert sweep.windows["product", 1005][0].usable
