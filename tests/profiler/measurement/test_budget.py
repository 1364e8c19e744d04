from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.budget import SweepPlan, plan_sweep, sweep_s, thinned
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.compose import rows_of
from energyopt.profiler.measurement.settings import Settings, timing_for
from energyopt.profiler.measurement.sweep import Sweep
from energyopt.profiler.workloads.interface import Kernel, KernelUse, Partition, PartitionUse, Workload
from energyopt.schemas.errors import RequestError
from energyopt.schemas.intervals import half_width
from energyopt.schemas.profile import EnergySource, Level

CLOCKS = tuple(range(1410, 840, -30))  # 19 of them
RUN_S = {"a": 5e-3, "b": 0.5e-3, "c": 1.2}
TIMING = timing_for(Settings(clocks_mhz=CLOCKS), 0.1, 0.0)
CALIBRATION = Calibration(
    source=EnergySource.COUNTER,
    tick_s=0.1,
    averaging_s=0.0,
    power_w=400.0,
    counter_over_power=1.0,
    power_noise=0.008,
    noise_span_s=0.5,
    sm_clock_mhz=1410,
)


def plan(budget_s: float | None, run_s: dict[str, float] = RUN_S, **settings: Any) -> SweepPlan:
    chosen = Settings(clocks_mhz=CLOCKS, budget_s=budget_s, **settings)
    timing = timing_for(chosen, 0.1, 0.0)
    return plan_sweep(CLOCKS, chosen, timing, CALIBRATION, run_s)


def least_s() -> float:
    with pytest.raises(RequestError) as caught:
        plan(1.0)
    return float(str(caught.value).split(" take ")[1].split(" s at least")[0])


def test_without_a_budget_everything_is_measured() -> None:
    whole = plan(None)
    assert (whole.clocks_mhz, whole.windows, whole.timing) == (CLOCKS, 5, TIMING)
    beside_s = 3 * (0.2 + 0.02)  # warming up and preparing
    once_s = sum(
        (1.0 + 5e-3 * f) + (1.0 + 0.5e-3 * f) + 3 * 1.2 * f + beside_s + (5e-3 + 0.5e-3 + 1.2) * f
        for f in (1410 / clock for clock in CLOCKS)
    )
    timed_s = sum(3 * 0.05 + 2 * (5e-3 + 0.5e-3 + 1.2) * 1410 / clock for clock in CLOCKS)
    again = 1.02  # two windows of a hundred are taken again
    assert whole.duration_s == pytest.approx(5 * once_s * again + timed_s)


def test_kernels_are_slower_at_lower_clocks() -> None:
    """Two to time them, a window of three, one before it: of 2 s at the top, of 4 s at half of it."""
    timing = replace(TIMING, warm_up_s=0.0)
    assert sweep_s((1410,), 1, timing, {"a": 2.0}) == pytest.approx(1.02 * (4 * 2.0 + 0.02) + 4.05)
    assert sweep_s((1410, 705), 1, timing, {"a": 2.0}) == pytest.approx(1.02 * (4 * 6.0 + 0.04) + 12.1)


def test_what_is_done_beside_the_sweep_is_part_of_the_budget() -> None:
    whole = plan(None)
    settings = Settings(clocks_mhz=CLOCKS, budget_s=whole.duration_s + 30.0)
    assert plan_sweep(CLOCKS, settings, TIMING, CALIBRATION, RUN_S, beside_s=30.0) == whole
    shorter = plan_sweep(CLOCKS, settings, TIMING, CALIBRATION, RUN_S, beside_s=31.0)
    assert shorter.duration_s < whole.duration_s
    with pytest.raises(RequestError, match=r"at least, and calibrating and warming up 15 min"):
        plan_sweep(CLOCKS, settings, TIMING, CALIBRATION, RUN_S, beside_s=900.0)


def test_a_large_budget_changes_nothing() -> None:
    whole = plan(None)
    assert plan(whole.duration_s) == whole


def test_no_budget_is_exceeded_and_the_error_grows_as_it_shrinks() -> None:
    whole, least = plan(None), least_s()
    plans = [whole]
    for number in range(100):
        budget_s = least + 0.6 + (whole.duration_s - least) * (99 - number) / 99
        plans.append(plan(budget_s))
        assert plans[-1].duration_s <= budget_s
        assert plans[-1].clocks_mhz[0] == 1410
        assert plans[-1].clocks_mhz[-1] == 870
        assert plans[-1].windows >= 2
        assert plans[-1].timing.window_s >= 0.5
    errors = [one.expected_error for one in plans]
    assert None not in errors
    assert errors == sorted(errors)  # type: ignore[type-var]
    assert [len(one.clocks_mhz) for one in plans] == sorted(
        (len(one.clocks_mhz) for one in plans), reverse=True
    )
    assert len(plans[-1].clocks_mhz) == 4
    assert len({one.duration_s for one in plans}) > 10


def test_windows_shrink_before_clocks_are_left_out() -> None:
    whole = plan(None)
    shorter = plan(0.7 * whole.duration_s)
    assert shorter.clocks_mhz == CLOCKS
    assert (shorter.windows, shorter.timing.window_s) < (5, 1.0)


def test_a_budget_that_is_too_small_is_refused_with_the_least() -> None:
    least = least_s()
    assert plan(least + 0.5).clocks_mhz == thinned(CLOCKS, 4)
    with pytest.raises(RequestError, match=f"too short: 3 kernels at 4 clocks take {least:.0f} s at least"):
        plan(least - 1.0)


def test_a_window_that_the_user_chose_is_not_shortened() -> None:
    assert plan(400.0, window_s=2.0).timing.window_s == 2.0


def test_windows_are_never_shorter_than_the_shortest() -> None:
    """A power reading that moves at every look has a tick of a millisecond."""
    settings = Settings(clocks_mhz=CLOCKS, budget_s=20.0)
    fine = timing_for(settings, 1e-3, 0.0)
    found = plan_sweep(CLOCKS, settings, fine, CALIBRATION, {"a": 1e-3, "b": 1e-3})
    assert found.duration_s <= 20.0
    assert found.timing.window_s == 0.05


def test_few_windows_and_few_clocks_of_the_users_stay_few() -> None:
    whole = plan_sweep((1410, 900), Settings(clocks_mhz=(1410, 900), windows=2), TIMING, CALIBRATION, RUN_S)
    settings = Settings(clocks_mhz=(1410, 900), windows=2, budget_s=0.95 * whole.duration_s)
    found = plan_sweep((1410, 900), settings, TIMING, CALIBRATION, RUN_S)
    assert (found.clocks_mhz, found.windows) == ((1410, 900), 2)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 18, 19, 30])
def test_thinning_keeps_both_ends_and_spreads_evenly(count: int) -> None:
    found = thinned(CLOCKS, count)
    assert len(set(found)) == len(found) == min(count, 19)
    assert (found[0], found[-1]) == (1410, 870)
    gaps = [high - low for high, low in pairwise(found)]
    assert max(gaps) - min(gaps) <= 30  # one step


def test_one_window_has_no_error_to_expect() -> None:
    found = plan(None, windows=1)
    assert found.expected_error is None
    assert "+-" not in str(found)


def test_a_plan_says_what_it_takes_and_how_well_it_will_know() -> None:
    found = replace(plan(None), duration_s=5400.0, expected_error=0.0123)
    assert str(found).endswith(
        "19 clocks x 5 windows of 1 s, about 1.5 h, energy of a kernel to about +-1.23% (95 %)"
    )


@pytest.mark.parametrize(("share", "windows"), [(1.0, 5), (0.75, 4), (0.5, 3), (0.3, 3)])
def test_what_was_predicted_is_what_the_sweep_finds(
    share: float, windows: int, workload: Workload, make_job: Callable[..., Any]
) -> None:
    """The time is kept, and the error bars are within a factor of two of the prediction."""
    clocks = (1410, 1305, 1200, 1110, 1005, 900)
    bench = open_simulated_bench("a100-sxm4-80gb", seed=2)
    job = make_job(bench, clocks_mhz=clocks)
    run_s = {one.name: bench.true_cost(one, 1410, 60.0)[0] for one in workload.kernels()}
    whole = plan_sweep(clocks, Settings(clocks_mhz=clocks), TIMING, CALIBRATION, run_s)
    budget = Settings(clocks_mhz=clocks, budget_s=share * whole.duration_s)
    fitted = plan_sweep(clocks, budget, TIMING, CALIBRATION, run_s)
    assert fitted.windows == windows
    sweep = Sweep(
        bench=bench,
        workload=workload,
        plan=fitted,
        source=EnergySource.COUNTER,
        wait_power_w=84.0,
        team=job.team,
        peers=job.peers,
        locks=None,
        kept=_Nowhere(),
        progress=job.progress,
        early_stop=False,
    )
    started_s = bench.now_s()
    sweep.run()
    assert 0.9 * fitted.duration_s <= bench.now_s() - started_s <= fitted.duration_s
    rows = rows_of(workload, sweep.windows, fitted.clocks_mhz, EnergySource.COUNTER, None)
    halves = [
        (half_width(row.energy_std_j, row.samples) or 0.0) / row.energy_j
        for row in rows
        if row.level is Level.KERNEL
    ]
    assert fitted.expected_error is not None
    assert 0.5 < fmean(halves) / fitted.expected_error < 2.0


class _Nowhere:
    def add(self, kind: str, value: dict[str, Any]) -> None:
        pass


def test_a_whole_run_stays_within_its_budget(
    make_job: Callable[..., Any], run_job: Callable[..., Any]
) -> None:
    for budget_s in (90.0, 150.0):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=1)
        measured = run_job(make_job(bench, clocks_mhz=CLOCKS, budget_s=budget_s))
        assert bench.now_s() <= budget_s
        assert measured.clocks_mhz[0] == 1410
        assert measured.clocks_mhz[-1] == 870


@pytest.mark.parametrize("budget_s", [900.0, 1200.0])
def test_kernels_longer_than_a_window_keep_the_budget_too(
    budget_s: float,
    product: Kernel,
    workload: Workload,
    make_job: Callable[..., Any],
    run_job: Callable[..., Any],
) -> None:
    """A step of a whole model: 2.9 s at the highest clock of an A100, and longer at the 17 others."""
    bench = open_simulated_bench("a100-sxm4-80gb", seed=1)
    longer = 2.9 / bench.true_cost(product, 1410, 60.0)[0]
    step = replace(product, flops=longer * product.flops)
    assert bench.true_cost(step, 1410, 60.0)[0] == pytest.approx(2.9, rel=0.03)
    partition = Partition(name="step", kernels=(KernelUse(kernel=step),))
    op = replace(workload.ops[0], partitions=(PartitionUse(partition=partition),))
    job = make_job(
        bench, workload=replace(workload, ops=(op,)), clocks_mhz=CLOCKS[:18], budget_s=budget_s, soak_s=60.0
    )
    measured = run_job(job)
    assert bench.now_s() <= budget_s
    assert bench.now_s() > 0.7 * budget_s  # and makes use of it
    assert {len(windows) for windows in measured.windows.values()} == {measured.plan.windows}
