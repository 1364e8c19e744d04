"""Times over clocks: exact where the truth has the shape, robust against single odd operations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.planner.calibration.op_times import Measured, fit_curve, fit_ratio, measured_by_clock
from energyopt.schemas.options import Option

CLOCKS = np.array([1000.0, 1050.0, 1100.0, 1150.0, 1200.0, 1300.0, 1400.0])


def limited(clock: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    """0.05 s of memory and 0.1 s of compute at 1400 MHz, held at 1200 MHz by a power limit."""
    return 0.05 + 0.1 * 1400 / np.minimum(clock, 1200.0)


def measured(time_s: "np.typing.NDArray[np.float64]", ops: "np.typing.NDArray[np.float64]") -> Measured:
    return Measured(clock_mhz=CLOCKS, time_s=time_s, ops=ops)


def test_means_by_clock() -> None:
    found = measured_by_clock(
        np.array([1200, 900, 1200]),
        np.array([1.0, 3.0, 2.0]),
        np.array([3.0, 1.0, 1.0]),
        np.array([1150.0, np.nan, 1190.0]),
        np.array([4, 0, 32]),
    )
    assert (found.clock_mhz.tolist(), found.time_s.tolist(), found.ops.tolist()) == (
        [900, 1200],
        [3.0, 1.25],
        [1, 4],
    )
    assert found.seen_mhz is not None and found.throttle is not None
    assert np.isnan(found.seen_mhz[0]) and found.seen_mhz[1] == 1160.0
    assert found.throttle.tolist() == [0, 4 | 32]


def test_a_power_limited_curve_is_met_exactly_and_beyond_its_ends() -> None:
    curve = fit_curve(measured(limited(CLOCKS), np.full(7, 10.0)))
    assert curve.at(np.array([1000, 1150, 1300])) == pytest.approx(
        limited(np.array([1000.0, 1150.0, 1300.0]))
    )
    assert curve.at(np.array([950, 1500])) == pytest.approx(limited(np.array([950.0, 1500.0])))


def test_a_single_odd_operation_does_not_bend_the_curve() -> None:
    time_s, ops = limited(CLOCKS), np.array([100.0, 1.0, 100.0, 100.0, 100.0, 100.0, 100.0])
    time_s[1] *= 0.95
    found = fit_curve(measured(time_s, ops)).at(CLOCKS.astype(np.int64))
    assert found == pytest.approx(limited(CLOCKS), rel=0.002)


@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(1, 1000)), min_size=7, max_size=7))
def test_a_curve_never_rises_with_the_clock_and_is_convex(points: list[tuple[float, float]]) -> None:
    time_s, ops = np.array(points).T
    curve = fit_curve(measured(time_s, ops))
    slopes = np.diff(curve.time_s) / np.diff(curve.x)
    tolerance = 1e-9 * curve.time_s.max() / curve.x.max()
    assert (slopes >= -tolerance).all()
    assert (np.diff(slopes) >= -1e3 * tolerance).all()


def test_one_clock_gives_a_constant() -> None:
    curve = fit_curve(Measured(clock_mhz=np.array([1000.0]), time_s=np.array([0.2]), ops=np.array([3.0])))
    assert curve.at(np.array([900, 1000])) == pytest.approx([0.2, 0.2])


OPTIONS = tuple(Option(sm_clock_mhz=int(clock), time_s=140 / clock, energy_j=1.0) for clock in CLOCKS)


def test_a_constant_ratio_corrects_every_clock() -> None:
    random = np.random.default_rng(0)
    noisy = 1.07 * 140 / CLOCKS * (1 + 1e-4 * random.standard_normal(7))
    curve = fit_ratio(measured(noisy, np.full(7, 5.0)), OPTIONS)
    assert curve.at(np.array([1000, 1250])) == pytest.approx(
        [1.07 * 0.14, 1.07 * (140 / 1200 + 140 / 1300) / 2], rel=2e-4
    )
    assert curve.ratio_at(2000) == curve.ratio_at(1400)


def test_a_significant_trend_is_followed_within_the_clocks_that_ran() -> None:
    ratio = 1 + (CLOCKS - 1000) / 4000
    curve = fit_ratio(measured(ratio * 140 / CLOCKS, np.full(7, 5.0)), OPTIONS)
    assert curve.at(np.array([1000, 1400])) == pytest.approx([0.14, 1.1 * 0.1])
    assert curve.ratio_at(1500) == pytest.approx(1.1)
