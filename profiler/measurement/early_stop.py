"""When to stop lowering the clock: once every op's effective energy has clearly turned.

Below the clock of least effective energy (energy - wait power x time) an op gets both slower and dearer, so that no
plan would choose it: measuring further down is time lost.
"""

from collections.abc import Mapping, Sequence

CLEARLY = 0.005
IN_A_ROW = 3


def has_turned(effective_j: Sequence[float], relative_error: float | None) -> bool:
    """Whether the last clocks are all clearly above the least: by more than the error, and by half a percent.

    Args:
        effective_j: effective energies of one op, from the highest clock down, J.
        relative_error: half the 95 % interval of such a value, relative; None where it is not known.
    """
    if len(effective_j) <= IN_A_ROW:
        return False
    least_j = min(effective_j)
    margin_j = max(CLEARLY, 1.5 * (relative_error or 0.0)) * abs(least_j)
    return all(one > least_j + margin_j for one in effective_j[-IN_A_ROW:])


def all_turned(effective_j: Mapping[object, Sequence[float]], relative_error: float | None) -> bool:
    """Whether every op has turned."""
    return all(has_turned(values, relative_error) for values in effective_j.values())
