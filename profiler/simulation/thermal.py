"""How warm the chip gets, and what warmth does."""

import math

from energyopt.profiler.simulation.spec import Thermal

REFERENCE_C = 60.0
"""The temperature at which a GPU's leakage is stated."""

_DOUBLING_C = 50.0
"""Leakage doubles over so many degrees. Between 25 and 60 in the literature on sub-20-nm chips; not fitted."""


def leakage_factor(temperature_c: float) -> float:
    """Leakage relative to that at the reference temperature."""
    return math.exp2((temperature_c - REFERENCE_C) / _DOUBLING_C)


def steady_c(thermal: Thermal, power_w: float) -> float:
    """Where the temperature ends up at a constant power."""
    return thermal.ambient_c + thermal.resistance_c_per_w * power_w


def later_c(thermal: Thermal, temperature_c: float, power_w: float, duration_s: float) -> float:
    """The temperature after some time at a constant power: the exact solution of the first-order equation."""
    steady = steady_c(thermal, power_w)
    return steady + (temperature_c - steady) * math.exp(-duration_s / thermal.time_constant_s)


def sustainable_w(thermal: Thermal) -> float:
    """The power that keeps the chip at its temperature limit."""
    return max(0.0, (thermal.limit_c - thermal.ambient_c) / thermal.resistance_c_per_w)
