"""Waiting costs what it costs a board in the middle of a sweep: warm, and not as hot as by one kernel alone."""

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest

from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.job import Job, Measured

SEEDS = 12


def mean_temperature_c(measured: Measured) -> float:
    """Of all windows of the sweep."""
    windows = [one for several in measured.windows.values() for one in several]
    seen = [each for one in windows for each in (one.temperature_start_c, one.temperature_end_c)]
    return fmean(each for each in seen if each is not None)


@pytest.mark.parametrize("name", ["a100-sxm4-80gb", "a40", "h100-sxm5-80gb"])
def test_the_wait_power_of_a_run_is_that_of_the_sweeps_own_warmth(
    name: str, make_job: Callable[..., Job], run_job: Callable[[Job], Measured]
) -> None:
    """A board that had cooled down, or was heated by one kernel alone, would be off by 5 to 11 %."""
    errors, hits = [], 0
    for seed in range(SEEDS):
        bench = open_simulated_bench(name, seed=seed)
        supported = bench.device.supported_sm_clocks_mhz()
        clocks = (supported[0], supported[len(supported) // 3])
        measured = run_job(make_job(bench, clocks_mhz=clocks, windows=2, soak_s=60.0, seed=seed))
        true_w = bench.true_wait_power_w(clocks[0], mean_temperature_c(measured))
        found = measured.resting.wait_power
        assert found.half_width is not None
        assert found.half_width < 0.03 * found.mean
        hits += abs(found.mean - true_w) <= found.half_width
        errors.append(found.mean / true_w - 1)
    assert abs(fmean(errors)) < 0.01
    assert hits >= 0.8 * SEEDS


def test_a_board_is_warm_before_it_rests(
    make_job: Callable[..., Job], run_job: Callable[[Job], Measured]
) -> None:
    """And what the budget has left is planned last: all that comes before the sweep has been done by then."""
    steps: list[str] = []
    run_job(replace(make_job(windows=2), progress=lambda step, _share: steps.append(step)))
    assert steps[:5] == [
        "looking at the board's readings under load",
        "warming the board",
        "measuring idle and wait power",
        "trying each kernel once",
        "round 1 of 2, 1410 MHz",
    ]
