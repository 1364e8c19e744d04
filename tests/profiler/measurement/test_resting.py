from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from statistics import fmean
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.resting import WARM_S, WINDOWS, attend_waits, idle_power, wait_power
from energyopt.profiler.measurement.settings import Settings, Timing, timing_for
from energyopt.profiler.measurement.statistics import Estimate
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.profile import EnergySource

REPETITIONS = 200
CLOCK = 1410
COUNTER = Calibration(
    source=EnergySource.COUNTER,
    tick_s=0.1,
    averaging_s=0.0,
    power_w=400.0,
    counter_over_power=1.0,
    power_noise=0.006,
    noise_span_s=0.5,
    sm_clock_mhz=CLOCK,
)
TIMING = timing_for(Settings(clocks_mhz=()), 0.1, 0.0)
Rest = Callable[[SimulatedBench, Kernel, Calibration, Timing], Estimate]


def noting_temperatures(bench: SimulatedBench) -> list[float]:
    """The board's temperature after each rest from now on, in whole degrees as NVML gives it."""
    seen: list[float] = []

    def noted(rest: Callable[..., None]) -> Callable[..., None]:
        def run(duration_s: float, poll: Any = None) -> None:
            rest(duration_s, poll)
            seen.append(bench.device.state().temperature_c)  # type: ignore[arg-type]

        return run

    for name in ("sleep", "wait"):
        setattr(bench, name, noted(getattr(bench, name)))
    return seen


@pytest.mark.parametrize(
    ("rest", "true"),
    [
        (idle_power, SimulatedBench.true_idle_power_w),
        (wait_power, SimulatedBench.true_wait_power_w),
    ],
    ids=["idle", "wait"],
)
def test_the_truth_is_in_90_to_99_percent_of_the_intervals(
    rest: Rest, true: Callable[[SimulatedBench, int, float], float], product: Kernel
) -> None:
    """Of a board about as warm as in a sweep; the truth is that at the temperature in the windows."""
    hits = 0
    for seed in range(REPETITIONS):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=seed)
        bench.device.lock_sm_clock(CLOCK)
        bench.run(product, 4000)
        temperatures_c = noting_temperatures(bench)
        found = rest(bench, product, COUNTER, TIMING)
        assert found.samples == WINDOWS
        assert len(temperatures_c) == 2 * WINDOWS
        half_w = found.half_width
        assert half_w is not None
        assert half_w < 0.1 * found.mean
        hits += abs(found.mean - true(bench, CLOCK, fmean(temperatures_c))) <= half_w
    assert 0.90 <= hits / REPETITIONS <= 0.99


def test_waiting_takes_place_at_the_clock_that_is_set(product: Kernel) -> None:
    found = {}
    for clock in (1410, 705):
        bench = open_simulated_bench("a100-sxm4-80gb", noise=False)
        bench.device.lock_sm_clock(clock)
        bench.run(product, 2000)
        found[clock] = wait_power(bench, product, COUNTER, TIMING).mean
    assert found[1410] > found[705]


def test_the_board_is_warmed_before_each_window_and_settles_then(
    scripted: Callable[..., Any], product: Kernel, timing: Timing
) -> None:
    """Waits between operations are those of a warm board: the wait power of one that rests is too low."""
    bench = scripted()
    done: list[tuple[str, float]] = []
    run, sleep = bench.run, bench.sleep

    def noting_run(kernel: Kernel, repeats: int, poll: Any = None) -> float:
        done.append((kernel.name, run(kernel, repeats, poll)))
        return done[-1][1]

    def noting_sleep(duration_s: float, poll: Any = None) -> None:
        done.append(("look" if poll else "settle", duration_s))
        sleep(duration_s, poll)

    bench.run, bench.sleep = noting_run, noting_sleep
    idle_power(bench, product, COUNTER, timing)
    groups = [
        (what, sum(one[1] for one in several)) for what, several in groupby(done, key=lambda one: one[0])
    ]
    assert [what for what, _ in groups] == ["product", "settle", "look"] * WINDOWS
    for _, warmed_s in groups[::3]:
        assert WARM_S <= warmed_s < 1.1 * WARM_S
    assert {settled_s for _, settled_s in groups[1::3]} == {0.2}
    assert {looked_s for _, looked_s in groups[2::3]} == {1.0}


def test_power_is_integrated_where_there_is_no_counter(
    scripted: Callable[..., Any], product: Kernel, timing: Timing
) -> None:
    bench = scripted(power=lambda _: 83.0, counter=lambda _: Absent("none"))
    power = replace(COUNTER, source=EnergySource.POWER_INTEGRAL)
    assert wait_power(bench, product, power, timing).mean == pytest.approx(83.0)


def test_a_window_that_cannot_be_used_is_left_out(
    scripted: Callable[..., Any], product: Kernel, timing: Timing
) -> None:
    """The counter restarts in the first window: after a second of warming and 0.2 s of settling, about."""
    bench = scripted(counter=lambda now_s: 60.0 * now_s - (50.0 if now_s > 1.8 else 0.0))
    found = idle_power(bench, product, COUNTER, timing)
    assert (found.samples, found.mean) == (WINDOWS - 1, pytest.approx(60.0, rel=3e-3))


def test_a_power_that_cannot_be_measured_is_an_error_and_never_0(
    scripted: Callable[..., Any], product: Kernel, timing: Timing
) -> None:
    bench = scripted(counter=lambda _: Absent("not supported"))
    with pytest.raises(MeasurementError, match=r"the wait power cannot be measured: .*not supported"):
        wait_power(bench, product, COUNTER, timing)


def test_a_rank_that_measures_nothing_waits_as_often_as_the_others(
    scripted: Callable[..., Any], product: Kernel, timing: Timing
) -> None:
    waits = []
    for rest in (attend_waits, lambda bench: wait_power(bench, product, COUNTER, timing)):
        bench = scripted()
        asked: list[float] = []
        bench.wait = lambda duration_s, poll=None, asked=asked, bench=bench: (
            asked.append(duration_s),
            bench.sleep(duration_s, poll),
        )
        rest(bench)
        waits.append(len(asked))
    assert waits == [2 * WINDOWS, 2 * WINDOWS]
