"""Whether a time and an energy can be one GPU's. The artifact's files have one unit each, s and J."""

from energyopt.profiler.importers import units
from energyopt.profiler.importers.units import EnergyUnit, TimeUnit


def implausible(time_s: float, energy_j: float, highest_w: float) -> str | None:
    """Why these cannot be, with what would explain them; None where they can.

    highest_w: the highest mean power that a reading can have, W.
    """
    if not units.SHORTEST_TIME_S <= time_s <= units.LONGEST_TIME_S:
        return f"a time of {time_s:.4g} s, outside {units.SHORTEST_TIME_S:g} to {units.LONGEST_TIME_S:g} s"
    power_w = energy_j / time_s
    if units.LOWEST_POWER_W <= power_w <= highest_w:
        return None
    return (
        f"a mean power of {power_w:.4g} W over {time_s:.4g} s, outside {units.LOWEST_POWER_W:g} to "
        f"{highest_w:g} W; {_explanation(time_s, energy_j, highest_w)}"
    )


def _explanation(time_s: float, energy_j: float, highest_w: float) -> str:
    """The units that would make the power that of one GPU."""

    def fits(power_w: float) -> bool:
        return units.LOWEST_POWER_W <= power_w <= highest_w

    found = [f"the energy in {unit}" for unit in EnergyUnit if fits(units.to_joules(energy_j, unit) / time_s)]
    found += [f"the time in {unit}" for unit in TimeUnit if fits(energy_j / units.to_seconds(time_s, unit))]
    expected = "it must be the energy of one GPU in J and the time in s"
    return f"{expected}: is {' or '.join(found)}?" if found else expected
