import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, PowerMeaning
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.calibration import USUAL_TICK_S, calibrate, heaviest
from energyopt.profiler.measurement.settings import Settings, SourceChoice, timing_for
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel
from energyopt.schemas.errors import MeasurementError, RequestError
from energyopt.schemas.profile import EnergySource

Scripted = Callable[..., Any]
AUTO = SourceChoice.AUTO
ABSENT = Absent("not supported")


@pytest.mark.parametrize("tick_s", [0.02, 0.1])
def test_the_tick_is_found(tick_s: float, scripted: Scripted, product: Kernel) -> None:
    found = calibrate(scripted(tick_s=tick_s), product, AUTO)
    assert found.source is EnergySource.COUNTER
    assert found.tick_s == pytest.approx(tick_s, abs=1.1e-3)  # looks are a millisecond apart
    assert found.power_w == pytest.approx(200.0, rel=1e-3)
    assert found.counter_over_power == pytest.approx(1.0, rel=1e-3)
    assert (found.warning, found.sm_clock_mhz) == (None, 1410)


def test_a_counter_that_ticks_once_a_second_is_watched_for_longer(
    scripted: Scripted, product: Kernel
) -> None:
    bench = scripted(tick_s=1.0)
    assert calibrate(bench, product, AUTO).tick_s == pytest.approx(1.0, abs=2e-3)
    assert bench.now_s() > 12.0


def test_a_counter_that_disagrees_with_power_is_warned_about_and_chosen(
    scripted: Scripted, product: Kernel
) -> None:
    found = calibrate(scripted(counter=lambda now_s: 260.0 * now_s), product, AUTO)
    assert found.source is EnergySource.COUNTER
    assert found.counter_over_power == pytest.approx(1.3, rel=1e-3)
    assert found.warning is not None
    assert "1.30 times the integrated power" in found.warning
    assert "the whole profile uses the counter" in found.warning


def test_the_user_may_choose_power(scripted: Scripted, product: Kernel) -> None:
    found = calibrate(scripted(counter=lambda now_s: 260.0 * now_s), product, SourceChoice.POWER)
    assert found.source is EnergySource.POWER_INTEGRAL
    assert found.power_w == pytest.approx(200.0)
    assert found.warning is not None
    assert "uses the power_integral" in found.warning


@pytest.mark.parametrize(
    "counter", [lambda _: ABSENT, lambda _: 7.0, lambda now_s: 9e9 * now_s], ids=["absent", "still", "absurd"]
)
def test_without_a_counter_to_believe_power_is_integrated(
    counter: Callable[[float], Any], scripted: Scripted, product: Kernel
) -> None:
    found = calibrate(
        scripted(counter=counter, power=lambda now_s: 200.0 + 10 * math.sin(now_s / 0.05)), product, AUTO
    )
    assert found.source is EnergySource.POWER_INTEGRAL
    assert found.power_w == pytest.approx(200.0, rel=0.01)
    assert (found.counter_over_power, found.warning) == (None, None)


def test_a_board_that_tells_nothing_is_refused_with_both_reasons(scripted: Scripted, product: Kernel) -> None:
    bench = scripted(counter=lambda _: Absent("no counter here"), power=lambda _: Absent("no sensor here"))
    with pytest.raises(MeasurementError) as caught:
        calibrate(bench, product, AUTO)
    assert "counter: the energy counter advanced 0 times in the window (no " in str(caught.value)
    assert "power: 0 power readings in the window (no " in str(caught.value)
    assert "energyopt doctor" in str(caught.value)


def test_a_chosen_source_that_does_not_work_is_refused_and_not_replaced(
    scripted: Scripted, product: Kernel
) -> None:
    with pytest.raises(MeasurementError, match="counter: the energy counter advanced 0 times"):
        calibrate(scripted(counter=lambda _: ABSENT), product, SourceChoice.COUNTER)
    with pytest.raises(MeasurementError, match=r"power: 0 power readings .*not supported"):
        calibrate(scripted(power=lambda _: ABSENT), product, SourceChoice.POWER)


@pytest.mark.parametrize(
    ("meaning", "choice", "averaging_s"),
    [
        (PowerMeaning.AVERAGE_1S, SourceChoice.POWER, 1.0),
        (PowerMeaning.AVERAGE_1S, AUTO, 0.0),
        (PowerMeaning.INSTANT, SourceChoice.POWER, 0.0),
    ],
)
def test_power_averaged_over_a_second_is_waited_for_where_it_is_the_source(
    meaning: PowerMeaning, choice: SourceChoice, averaging_s: float, scripted: Scripted, product: Kernel
) -> None:
    """Before the pilot, which compares both readings, in any case; before windows not if the counter is read."""
    bench = scripted(meaning=meaning)
    found = calibrate(bench, product, choice)
    assert (bench.looks_s[0] >= 1.0) == (meaning is PowerMeaning.AVERAGE_1S)
    assert found.averaging_s == averaging_s
    warm_up_s = timing_for(Settings(clocks_mhz=()), found.tick_s, found.averaging_s).warm_up_s
    assert warm_up_s == pytest.approx(max(0.1, 2 * found.tick_s, 1.2 * averaging_s))


def test_a_power_reading_that_never_changes_says_nothing_of_its_ticks(
    scripted: Scripted, product: Kernel
) -> None:
    found = calibrate(scripted(counter=lambda _: ABSENT), product, AUTO)
    assert (found.source, found.tick_s) == (EnergySource.POWER_INTEGRAL, USUAL_TICK_S)
    assert timing_for(Settings(clocks_mhz=()), found.tick_s, 0.0).window_s == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["a40", "h100-sxm5-80gb"])
def test_an_averaged_reading_agrees_with_the_counter_on_a_board_that_was_cold(
    name: str, product: Kernel
) -> None:
    ratio = calibrate(open_simulated_bench(name), product, AUTO).counter_over_power
    assert ratio == pytest.approx(1.0, abs=0.03)


def test_the_noise_of_a_simulated_board_is_found(product: Kernel) -> None:
    """The mean of half a second of an AR(1) power of 0.6 % and 0.3 s, with 0.4 % white noise in cells of 0.1 s."""
    share = 0.3 / 0.5
    expected = math.sqrt(
        0.006**2 * 2 * share * (1 - share * (1 - math.exp(-1 / share))) + 0.004**2 * 0.1 / 0.5
    )
    squares = []
    for seed in range(20):
        bench = open_simulated_bench("a100-sxm4-80gb", seed=seed)
        bench.device.lock_sm_clock(1005)  # below the power limit, which would hide it
        bench.run(product, 4000)
        found = calibrate(bench, product, AUTO)
        assert found.noise_span_s == pytest.approx(0.5, rel=0.05)
        squares.append(found.power_noise**2)
    assert math.sqrt(sum(squares) / 20) == pytest.approx(expected, rel=0.25)  # few spans, and correlated


def test_the_heaviest_kernel_computes(product: Kernel, stream: Kernel) -> None:
    communication = Communication(
        collective=Collective.ALL_REDUCE, message_bytes=1e9, group="tensor", ranks=2
    )
    collective = replace(stream, name="all_reduce", flops=1e20, communication=communication)
    vector = replace(stream, name="vector", flops=1e20)
    assert heaviest((collective, stream, product, vector)) is product
    assert heaviest((collective, stream)) is stream
    assert heaviest((collective,)) is collective


def test_windows_follow_from_the_tick() -> None:
    settings = Settings(clocks_mhz=())
    found = timing_for(settings, 0.1, 0.0)
    assert (found.window_s, found.warm_up_s) == pytest.approx((1.0, 0.2))
    assert timing_for(settings, 1e-3, 0.0).window_s == 0.05
    chosen = timing_for(replace(settings, window_s=0.5, warm_up_s=3.0, cool_down_s=1.0), 0.1, 1.0)
    assert (chosen.window_s, chosen.warm_up_s, chosen.cool_down_s) == (0.5, 3.0, 1.0)


def test_a_window_of_fewer_than_five_ticks_is_refused_with_the_least() -> None:
    with pytest.raises(
        RequestError, match=r"0\.4 s is too short: .* needs 5 ticks; .* at least --window-s 0\.5"
    ):
        timing_for(Settings(clocks_mhz=(), window_s=0.4), 0.1, 0.0)
