"""Units that source files use. Values are converted once, here; everything else is in s, J, W and MHz."""

from enum import StrEnum

from energyopt.schemas.errors import EnergyoptError

LOWEST_POWER_W = 1.0
HIGHEST_POWER_W = 2000.0  # no single GPU board draws more
SHORTEST_TIME_S = 1e-9
LONGEST_TIME_S = 1e6
LIMIT_MARGIN = 1.5  # boards overshoot their power limit for moments, not on average

_LOWEST_CLOCK_MHZ = 50
_HIGHEST_CLOCK_MHZ = 5000
_JOULES_PER_KWH = 3_600_000.0
_CLOCK_UNITS_MHZ = {"GHz": 1000.0, "kHz": 1e-3, "Hz": 1e-6}


class TimeUnit(StrEnum):
    """Units of a time column."""

    SECOND = "s"
    MILLISECOND = "ms"
    MICROSECOND = "us"


class EnergyUnit(StrEnum):
    """Units of an energy column."""

    JOULE = "J"
    MILLIJOULE = "mJ"
    MICROJOULE = "uJ"
    KILOWATT_HOUR = "kWh"


_PARTS = {
    TimeUnit.SECOND: 1.0,
    TimeUnit.MILLISECOND: 1000.0,
    TimeUnit.MICROSECOND: 1_000_000.0,
    EnergyUnit.JOULE: 1.0,
    EnergyUnit.MILLIJOULE: 1000.0,
    EnergyUnit.MICROJOULE: 1_000_000.0,
}


def to_seconds(value: float, unit: TimeUnit) -> float:
    """Convert a time to seconds; dividing rounds once, a factor such as 1e-3 would add an error."""
    return value / _PARTS[unit]


def to_joules(value: float, unit: EnergyUnit) -> float:
    """Convert an energy to joules."""
    if unit is EnergyUnit.KILOWATT_HOUR:
        return value * _JOULES_PER_KWH
    return value / _PARTS[unit]


def highest_power_w(power_limit_w: float | None) -> float:
    """The mean power in W above which a reading must be wrong, given the power limit if it is known."""
    return HIGHEST_POWER_W if power_limit_w is None else LIMIT_MARGIN * power_limit_w


def checked_highest_power_w(wait_power_w: float, power_limit_w: float | None) -> float:
    """The same, once both settings are known to be sound.

    Raises:
        EnergyoptError: a power limit or a wait power that no board has; with the likely unit.
    """
    if power_limit_w is not None and not 0 < power_limit_w <= HIGHEST_POWER_W:
        hint = likely_watts(power_limit_w, HIGHEST_POWER_W)
        allowed = f"above 0 and at most {HIGHEST_POWER_W:g} W"
        raise EnergyoptError(f"the power limit must be {allowed}, not {power_limit_w}{hint}")
    highest_w = highest_power_w(power_limit_w)
    if not 0 <= wait_power_w < highest_w:
        hint = likely_watts(wait_power_w, highest_w)
        raise EnergyoptError(
            f"the wait power must be at least 0 and below {highest_w:g} W, not {wait_power_w}{hint}"
        )
    return highest_w


def implausible_time(time: float, unit: TimeUnit) -> str | None:
    """Why a time, in this unit, is none of an operation, with the likely unit; None where it can be one."""
    if SHORTEST_TIME_S <= to_seconds(time, unit) <= LONGEST_TIME_S:
        return None
    fitting = [
        f"--time-unit {other} ({seconds:.4g} s)"
        for other in TimeUnit
        if SHORTEST_TIME_S <= (seconds := to_seconds(time, other)) <= LONGEST_TIME_S
    ]
    hint = f"did you mean {' or '.join(fitting)}?" if fitting else "no unit would explain it"
    return f"{to_seconds(time, unit):.4g} s, outside {SHORTEST_TIME_S:g} to {LONGEST_TIME_S:g} s; {hint}"


def likely_watts(value: float, highest_w: float) -> str:
    """A hint at the unit of a power that is too high, to be appended to the complaint; empty if there is none."""
    for unit, parts in (("mW", 1e3), ("uW", 1e6)):
        if LOWEST_POWER_W <= value / parts <= highest_w:
            return f"; it looks like {unit}, which would be {value / parts:g} W"
    return ""


def implausible_power(
    time: float, time_unit: TimeUnit, energy: float, energy_unit: EnergyUnit, highest_w: float
) -> str | None:
    """Why time and energy, in these units, cannot be one GPU's, with the likely unit; None where they can."""
    power_w = _power_w(time, time_unit, energy, energy_unit)
    if LOWEST_POWER_W <= power_w <= highest_w:
        return None
    hint = _likely_units(time, time_unit, energy, energy_unit, highest_w)
    found = f"a mean power of {power_w:.4g} W over {time:g} {time_unit}"
    return f"{found}, outside {LOWEST_POWER_W:g} to {highest_w:g} W; {hint}"


def implausible_clock(mhz: float) -> str | None:
    """Why a number is no SM clock in MHz, with the likely unit; None where it can be one."""
    if _LOWEST_CLOCK_MHZ <= mhz <= _HIGHEST_CLOCK_MHZ:
        return None if mhz.is_integer() else "not a whole number of MHz"
    for unit, factor in _CLOCK_UNITS_MHZ.items():
        if _LOWEST_CLOCK_MHZ <= mhz * factor <= _HIGHEST_CLOCK_MHZ:
            return f"not a clock in MHz; it looks like {unit}, which would be {mhz * factor:g} MHz"
    return f"not a clock in MHz, which lies between {_LOWEST_CLOCK_MHZ} and {_HIGHEST_CLOCK_MHZ}"


def _power_w(time: float, time_unit: TimeUnit, energy: float, energy_unit: EnergyUnit) -> float:
    return to_joules(energy, energy_unit) / to_seconds(time, time_unit)


def _likely_units(
    time: float, time_unit: TimeUnit, energy: float, energy_unit: EnergyUnit, highest_w: float
) -> str:
    """The units that would make the power plausible; those that change one of the two come first."""
    one_changed = [(time_unit, other) for other in EnergyUnit] + [(other, energy_unit) for other in TimeUnit]
    both = [(one, other) for one in TimeUnit for other in EnergyUnit]
    for candidates in (one_changed, both):
        fitting = [
            _flags(one, other, time_unit, energy_unit) + f" ({power_w:.4g} W)"
            for one, other in candidates
            if LOWEST_POWER_W <= (power_w := _power_w(time, one, energy, other)) <= highest_w
        ]
        if fitting:
            return f"did you mean {' or '.join(fitting)}?"
    return "no unit would explain it"


def _flags(time_unit: TimeUnit, energy_unit: EnergyUnit, told_time: TimeUnit, told_energy: EnergyUnit) -> str:
    flags = [f"--time-unit {time_unit}"] if time_unit is not told_time else []
    return " ".join(flags + ([f"--energy-unit {energy_unit}"] if energy_unit is not told_energy else []))
