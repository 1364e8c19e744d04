import math

import pytest

from energyopt.profiler.simulation.spec import Thermal
from energyopt.profiler.simulation.thermal import later_c, leakage_factor, steady_c, sustainable_w

THERMAL = Thermal(ambient_c=30.0, resistance_c_per_w=0.1, time_constant_s=20.0, limit_c=85.0)


def test_a_step_of_power_reaches_63_percent_after_one_time_constant() -> None:
    assert steady_c(THERMAL, 400.0) == pytest.approx(70.0)
    assert later_c(THERMAL, 30.0, 400.0, 20.0) == pytest.approx(30.0 + 40.0 * (1 - math.exp(-1)))


def test_two_halves_of_a_step_are_the_whole() -> None:
    half_c = later_c(THERMAL, 40.0, 250.0, 3.5)
    assert later_c(THERMAL, half_c, 250.0, 3.5) == pytest.approx(later_c(THERMAL, 40.0, 250.0, 7.0))


def test_leakage_is_one_at_60_degrees_and_doubles_over_50() -> None:
    assert [leakage_factor(c) for c in (10.0, 60.0, 110.0)] == pytest.approx([0.5, 1.0, 2.0])


def test_the_sustainable_power_leads_to_the_limit() -> None:
    assert steady_c(THERMAL, sustainable_w(THERMAL)) == pytest.approx(85.0)
