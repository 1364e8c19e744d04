from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Throttle
from energyopt.profiler.measurement.samples import Recorder
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.measurement.window import END_MARGIN, recorder_for
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.profile import EnergySource

Scripted = Callable[..., Any]
WINDOW_S = 2.0


def record(
    bench: Any, kernel: Kernel, timing: Timing, source: EnergySource = EnergySource.COUNTER
) -> Recorder:
    recorder = recorder_for(bench, timing, WINDOW_S, source)
    bench.run(kernel, round(WINDOW_S / bench.run_s), recorder)
    return recorder


def test_looks_are_fine_near_both_ends_and_coarse_between(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted()
    bench.sleep(0.013)
    start_s = bench.now_s()
    record(bench, product, timing)
    gaps_s = [(one - start_s, two - one) for one, two in pairwise(bench.looks_s)]
    fine_from_s = (1 - END_MARGIN) * WINDOW_S - 1.25 * timing.tick_s
    start = [gap for at, gap in gaps_s if at < 0.0045]
    middle = [gap for at, gap in gaps_s if 0.03 < at < fine_from_s - WINDOW_S / 10]
    end = [gap for at, gap in gaps_s if at >= fine_from_s]
    assert start + end == pytest.approx([timing.fine_s] * len(start + end))
    assert middle == pytest.approx([WINDOW_S / 10] * len(middle))
    assert (len(start), len(middle)) == (4, 8)
    assert len(end) == pytest.approx((WINDOW_S - fine_from_s) / timing.fine_s, abs=2)


@pytest.mark.parametrize("window_s", [0.5, 20.0])
def test_the_number_of_looks_is_bounded(
    window_s: float, scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted()
    recorder = recorder_for(bench, timing, window_s, EnergySource.COUNTER)
    bench.run(product, round(window_s / bench.run_s), recorder)
    ends = (2.25 * timing.tick_s + END_MARGIN * window_s) / timing.fine_s
    assert len(bench.looks_s) <= 10 + ends + 5


def test_a_counter_that_never_moves_is_sought_at_the_fine_interval_and_no_faster(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted(counter=lambda _: 5.0)
    record(bench, product, timing)
    assert len(bench.looks_s) == pytest.approx(WINDOW_S / timing.fine_s, abs=2)


def test_without_the_counter_nothing_is_looked_at_between_the_coarse_looks(
    scripted: Scripted, product: Kernel, timing: Timing
) -> None:
    bench = scripted()
    recorder = record(bench, product, timing, EnergySource.POWER_INTEGRAL)
    assert len(bench.looks_s) == pytest.approx(10, abs=1)
    assert recorder.samples.energy_j == []
    assert len(recorder.samples.power_w) == len(bench.looks_s)


def test_lost_readings_are_counted_by_reason(scripted: Scripted, product: Kernel, timing: Timing) -> None:
    bench = scripted(
        tick_s=None,
        counter=lambda now_s: Absent("busy") if now_s < 0.05 else 200 * now_s,
        power=lambda _: Absent("no sensor"),
        clock_mhz=Absent("hidden"),
    )
    samples = record(bench, product, timing).samples
    assert samples.lost["busy"] == sum(look_s < 0.05 for look_s in bench.looks_s)
    assert len(samples.energy_j) == len(bench.looks_s) - samples.lost["busy"]
    assert samples.lost["no sensor"] == samples.lost["hidden"] == pytest.approx(11, abs=1)
    assert samples.power_w == samples.sm_clock_mhz == []


def test_throttle_reasons_add_up_over_the_window(scripted: Scripted, product: Kernel, timing: Timing) -> None:
    early, late = Throttle.SW_POWER_CAP, Throttle.SW_THERMAL
    bench = scripted(throttle=lambda now_s: early if now_s < 1.0 else late)
    assert record(bench, product, timing).samples.throttle == early | late
    silent = scripted(throttle=lambda _: Absent("not supported"))
    assert record(silent, product, timing).samples.throttle is None
