"""When to stop lowering the clock: once every op's effective energy has clearly turned.

Below the clock of least effective energy (energy - wait power x time) an op gets both slower and dearer, so that no
plan would choose it: measuring further down is time lost.
"""

import math
from collections.abc import Mapping, Sequence

from energyopt.profiler.measurement.statistics import Reading

CLEARLY = 0.005
SURE = 4.0
"""How many standard errors a difference must have: the least of many values is low by chance already."""
IN_A_ROW = 3


def has_turned(effective_j: Sequence[Reading]) -> bool:
    """Whether the last clocks are all clearly above the least: by half a percent, and by more than chance makes.

    Args:
        effective_j: effective energies of one op, from the highest clock down, with their standard errors, J.
    """
    if len(effective_j) <= IN_A_ROW:
        return False
    least = min(effective_j, key=lambda one: one.value)
    return all(
        one.value - least.value > max(CLEARLY * abs(least.value), SURE * math.hypot(one.error, least.error))
        for one in effective_j[-IN_A_ROW:]
    )


def all_turned(effective_j: Mapping[object, Sequence[Reading]]) -> bool:
    """Whether every op has turned."""
    return all(has_turned(values) for values in effective_j.values())
