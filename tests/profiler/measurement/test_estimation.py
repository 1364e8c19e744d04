import math
from collections.abc import Callable

import pytest

from energyopt.profiler.measurement.estimation import (
    Edge,
    Power,
    Rejected,
    edges_of,
    integral_j,
    mean_power,
)
from energyopt.profiler.measurement.samples import Samples
from energyopt.schemas.profile import EnergySource

COUNTER, POWER = EnergySource.COUNTER, EnergySource.POWER_INTEGRAL
TICK_S = 0.02


def seen(power_w: Callable[[float], float], looks_s: list[float]) -> Samples:
    """A counter that stands at the energy of its last tick; `power_w` is the mean power until a time."""
    ticks = [math.floor(look_s / TICK_S + 1e-9) * TICK_S for look_s in looks_s]
    return Samples(energy_j=[(look, power_w(tick) * tick) for look, tick in zip(looks_s, ticks, strict=True)])


def every(step_s: float, until_s: float) -> list[float]:
    return [number * step_s for number in range(round(until_s / step_s) + 1)]


def power_of(samples: Samples, source: EnergySource = COUNTER, **more: float) -> Power:
    found = mean_power(samples, source, more.pop("limit_w", 400.0), **more)
    assert isinstance(found, Power), found
    return found


def reason(samples: Samples, source: EnergySource = COUNTER) -> str:
    found = mean_power(samples, source, 400.0)
    assert isinstance(found, Rejected), found
    return found.reason


def test_an_edge_lies_midway_between_the_looks_around_it() -> None:
    samples = Samples(energy_j=[(1.0, 5.0), (1.1, 5.0), (1.2, 7.0), (1.3, 7.0), (1.5, 8.0)])
    first, second = edges_of(samples)
    assert (first.time_s, first.energy_j, first.gap_s) == pytest.approx((1.15, 7.0, 0.1))
    assert (second.time_s, second.energy_j, second.gap_s) == pytest.approx((1.4, 8.0, 0.2))


def test_after_a_long_gap_the_last_advance_is_at_most_a_tick_old() -> None:
    [edge] = edges_of(Samples(energy_j=[(1.0, 5.0), (2.0, 15.0)]), tick_s=0.1)
    assert (edge.time_s, edge.energy_j, edge.gap_s) == pytest.approx((1.95, 15.0, 0.1))
    assert edges_of(Samples(energy_j=[(1.0, 5.0), (2.0, 15.0)])) == [Edge(1.5, 15.0, 1.0)]


def test_a_counter_that_ticks_at_known_times_gives_the_exact_power() -> None:
    """Looks at 1 ms meet 20 ms ticks at one and the same phase: every edge is off by as much, so none matters."""
    found = power_of(seen(lambda _: 250.0, every(1e-3, 0.5)))
    assert found.power_w == pytest.approx(250.0, rel=1e-9)


def test_the_error_is_that_of_two_edges_each_anywhere_between_its_looks() -> None:
    samples = seen(lambda _: 250.0, every(4e-3, 0.5))
    span_s = 0.5 - TICK_S  # the first tick is that at 20 ms, the last that at 500 ms
    assert power_of(samples).error_w == pytest.approx(250.0 * math.sqrt(2) * 4e-3 / math.sqrt(12) / span_s)


def test_partial_ticks_at_both_ends_do_not_count() -> None:
    """The naive difference over the whole window would be off by up to a tick in 25."""
    looks_s = [0.013 + one for one in every(1e-3, 0.5)]
    assert power_of(seen(lambda _: 250.0, looks_s)).power_w == pytest.approx(250.0, rel=3e-3)


def test_well_timed_edges_are_preferred_to_coarse_ones() -> None:
    looks_s = [0.0, 0.015, *(0.03 + one for one in every(1e-3, 0.05)), 0.2, 0.3, 0.4]
    looks_s += [0.41 + one for one in every(1e-3, 0.06)] + [0.49]
    found = power_of(seen(lambda _: 250.0, looks_s), tick_s=TICK_S)
    assert found.power_w == pytest.approx(250.0, rel=2e-3)
    assert found.error_w < 250.0 * 1e-3 / (0.46 - 0.04)


def test_a_window_whose_end_was_missed_is_not_biased() -> None:
    """Fine looks at the start, then one a second: the last edge is known to a tick, and not half a second early."""
    looks_s = every(1e-3, 0.1) + [1.0077 + one for one in range(9)]
    found = power_of(seen(lambda _: 250.0, looks_s), tick_s=TICK_S)
    assert abs(found.power_w / 250.0 - 1) <= TICK_S / 2 / 8.0
    assert found.error_w == pytest.approx(250.0 * TICK_S / math.sqrt(12) / 9.0, rel=0.02)


def test_a_counter_that_goes_back_is_rejected() -> None:
    samples = seen(lambda _: 250.0, every(1e-3, 0.5))
    samples.energy_j[300:] = [(time_s, value - 70.0) for time_s, value in samples.energy_j[300:]]
    assert reason(samples) == "the energy counter went back: the driver restarted it"


@pytest.mark.parametrize(("until_s", "edges"), [(0.01, 0), (0.03, 1), (0.05, 2)])
def test_too_few_ticks_are_rejected_with_their_number(until_s: float, edges: int) -> None:
    found = reason(seen(lambda _: 250.0, every(1e-3, until_s)))
    assert found == f"the energy counter advanced {edges} times in the window"


def test_three_ticks_are_enough() -> None:
    assert power_of(seen(lambda _: 250.0, every(1e-3, 0.07))).power_w == pytest.approx(250.0)


def test_a_counter_that_was_never_read_is_rejected_with_the_drivers_reason() -> None:
    samples = Samples(lost={"timeout": 2, "not supported": 9})
    assert reason(samples) == "the energy counter advanced 0 times in the window (not supported)"
    assert reason(samples, POWER) == "0 power readings in the window (not supported)"


@pytest.mark.parametrize("source", [COUNTER, POWER])
def test_more_than_one_and_a_half_times_the_limit_is_not_believed(source: EnergySource) -> None:
    def samples(power_w: float) -> Samples:
        found = seen(lambda _: power_w, every(1e-3, 0.5))
        found.power_w = [(look_s, power_w) for look_s in every(0.1, 0.5)]
        return found

    assert reason(samples(601.0), source) == "mean power of 601 W, more than 1.5 x the limit of 400 W"
    assert power_of(samples(599.0), source).power_w == pytest.approx(599.0)
    without_limit = mean_power(samples(5000.0), source, None)
    assert isinstance(without_limit, Power)
    assert without_limit.power_w == pytest.approx(5000.0)


def test_no_power_at_all_is_not_believed() -> None:
    samples = Samples(power_w=[(0.0, 0.0), (1.0, 0.0)])
    assert reason(samples, POWER) == "mean power of 0 W"


def test_power_is_integrated_by_the_trapezoidal_rule() -> None:
    readings = [(0.0, 100.0), (1.0, 200.0), (4.0, 100.0)]
    assert integral_j(readings) == pytest.approx(150.0 + 3 * 150.0)
    assert power_of(Samples(power_w=readings), POWER).power_w == pytest.approx(600.0 / 4)


def test_the_error_of_integrated_power_counts_each_reading_once_however_often_it_was_seen() -> None:
    values = [200.0, 210.0, 190.0, 205.0]
    often = [(0.1 * number, values[number // 5]) for number in range(20)]
    deviation_w = math.sqrt(sum((one - 201.25) ** 2 for one in values) / 3)
    assert power_of(Samples(power_w=often), POWER).error_w == pytest.approx(deviation_w / 2)


def test_one_power_reading_is_no_integral() -> None:
    assert reason(Samples(power_w=[(0.0, 100.0)]), POWER) == "1 power readings in the window"
