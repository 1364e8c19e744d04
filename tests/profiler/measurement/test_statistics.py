import math
from statistics import fmean, stdev

import numpy as np
import pytest

from energyopt.profiler.measurement.statistics import DRIFT, Estimate, Reading, estimate, total

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}  # two-sided 95 % quantiles, by number of values


def readings(*values: float, error: float = 0.0, drift: float = 0.0) -> dict[int, Reading]:
    return {number: Reading(value, error, drift) for number, value in enumerate(values)}


@pytest.mark.parametrize("count", sorted(T_95))
def test_the_interval_is_students(count: int) -> None:
    values = [10.0 + 0.3 * number**2 for number in range(count)]
    found = estimate(readings(*values))
    assert found.mean == pytest.approx(fmean(values))
    assert found.std == pytest.approx(stdev(values))
    assert found.half_width == pytest.approx(T_95[count] * stdev(values) / math.sqrt(count), rel=1e-3)


def test_one_window_has_no_error_bar() -> None:
    found = estimate(readings(3.0, error=0.1))
    assert found == Estimate(mean=3.0, std=None, samples=1)
    assert found.half_width is None


def test_the_interval_is_at_least_one_standard_error_of_the_reading() -> None:
    assert estimate(readings(5.0, 5.0, 5.0, error=0.3)).half_width == pytest.approx(0.3 / math.sqrt(3))


def test_a_spread_above_what_the_reading_explains_stands_as_it_is() -> None:
    wide = estimate(readings(4.0, 5.0, 6.0, error=0.01))
    assert wide == estimate(readings(4.0, 5.0, 6.0))


def test_drift_adds_in_quadrature_with_the_normal_quantile() -> None:
    without, drifting = estimate(readings(4.0, 5.0, 6.0)), estimate(readings(4.0, 5.0, 6.0, drift=0.5))
    assert without.half_width is not None
    assert drifting.half_width == pytest.approx(math.hypot(without.half_width, 1.95996 * 0.5), rel=1e-5)


def test_drifts_of_parts_do_not_cancel() -> None:
    found = total([(2, readings(1.0, 1.0, drift=0.1)), (3, readings(1.0, 1.0, drift=0.2))])
    assert found.half_width == pytest.approx(1.95996 * (2 * 0.1 + 3 * 0.2), rel=1e-5)


def test_a_sum_by_hand() -> None:
    found = total([(2, readings(1.0, 2.0, 3.0)), (3, readings(10.0, 12.0, 11.0))])
    assert found.mean == pytest.approx(2 * 2 + 3 * 11)
    assert found.std == pytest.approx(stdev([32.0, 40.0, 39.0]))
    assert found.samples == 3


def test_a_round_that_a_part_lacks_counts_for_the_mean_only() -> None:
    first = {0: Reading(1.0), 1: Reading(2.0), 2: Reading(6.0)}
    second = {1: Reading(4.0), 2: Reading(5.0)}
    found = total([(1, first), (1, second)])
    assert found.mean == pytest.approx(3.0 + 4.5)
    assert found.std == pytest.approx(stdev([6.0, 11.0]))
    assert found.samples == 2
    assert total([(1, {0: Reading(1.0)}), (1, {1: Reading(1.0)})]).std is None


@pytest.mark.parametrize("shared", [0.0, 0.01])
def test_the_interval_of_a_sum_covers_also_where_its_parts_drift_together(shared: float) -> None:
    """Adding the parts' errors in quadrature would cover 60 % of sums of 12 parts with a shared 1 %."""
    generator = np.random.default_rng(3)
    hits, trials, parts = 0, 2000, 12
    for _ in range(trials):
        drift = generator.normal(0.0, shared, size=5)
        values = 1.0 + drift + generator.normal(0.0, 0.005, size=(parts, 5))
        found = total([(1, readings(*row)) for row in values.tolist()])
        assert found.half_width is not None
        hits += abs(found.mean - parts) <= found.half_width
    assert hits / trials == pytest.approx(0.95, abs=0.015)  # three standard deviations of the share


def test_independent_errors_cancel_in_a_sum() -> None:
    parts = [(1, readings(1.0, 1.0, error=0.1)) for _ in range(100)]
    assert total(parts).half_width == pytest.approx(0.1 * 10 / math.sqrt(2))


def test_energies_are_never_claimed_to_better_than_the_drift() -> None:
    assert estimate(readings(*[100.0] * 50, drift=100 * DRIFT)).half_width == pytest.approx(0.294, rel=1e-3)
