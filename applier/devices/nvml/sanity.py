"""Raw readings into J, W, degrees Celsius and MHz; values that no board can have are absent, with the number.

Drivers hand out blanks (all bits set), eighteen digits and negative numbers as successful readings.
"""

from energyopt.applier.devices.interface import Absent

HIGHEST_ENERGY_MJ = 10**15  # 1 kW for 31 years
HIGHEST_POWER_MW = 10_000_000  # no limit known: above any board or module
OVER_LIMIT = 1.5  # short peaks above a power limit are real; half as much again is not
TEMPERATURES_C = range(-40, 151)
HIGHEST_CLOCK_MHZ = 10_000


def energy_j(raw_mj: int) -> float | Absent:
    """The energy counter in J."""
    if not 0 <= raw_mj < HIGHEST_ENERGY_MJ:
        return Absent(f"the driver gave {raw_mj} mJ, which no board has used")
    return raw_mj / 1e3


def power_w(raw_mw: int, limit_w: float | None) -> float | Absent:
    """A power reading in W; `limit_w` is the board's power limit, where it is known and applies."""
    highest_mw = HIGHEST_POWER_MW if limit_w is None else OVER_LIMIT * limit_w * 1e3
    if not 0 <= raw_mw <= highest_mw:
        return Absent(f"the driver gave {raw_mw / 1e3:.0f} W; 0 to {highest_mw / 1e3:.0f} W is possible")
    return raw_mw / 1e3


def power_limit_w(raw_mw: int) -> float | Absent:
    """A board's power limit in W."""
    if not 0 < raw_mw <= HIGHEST_POWER_MW:
        return Absent(f"the driver gave a power limit of {raw_mw} mW")
    return raw_mw / 1e3


def temperature_c(raw_c: int) -> float | Absent:
    """A temperature in degrees Celsius."""
    if raw_c not in TEMPERATURES_C:
        return Absent(f"the driver gave {raw_c} degrees Celsius")
    return float(raw_c)


def clock_mhz(raw_mhz: int) -> int | Absent:
    """A clock in MHz."""
    if not 0 < raw_mhz <= HIGHEST_CLOCK_MHZ:
        return Absent(f"the driver gave {raw_mhz} MHz")
    return int(raw_mhz)
