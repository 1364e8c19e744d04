"""Fronts of two objectives that are both to be small, and the area that they dominate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]  # N x 2

MARGIN = 1.05
"""The reference point while searching lies this much beyond the worst that was seen in each objective."""


def front_of(values: Values) -> Values:
    """The non-dominated points, by rising first objective; of equal ones, one."""
    ordered = values[np.lexsort((values[:, 1], values[:, 0]))]
    before = np.minimum.accumulate(np.concatenate(([np.inf], ordered[:-1, 1])))
    return ordered[ordered[:, 1] < before]


def hypervolume(values: Values, reference: NDArray[Any]) -> float:
    """The area that the points dominate within the reference point."""
    front = front_of(values[np.all(values < reference, axis=1)])
    widths = np.diff(np.concatenate((front[:, 0], [reference[0]])))
    return float(np.sum(widths * (reference[1] - front[:, 1])))


def planes(time_s: NDArray[np.float64], energy_j: NDArray[np.float64], wait_power_w: float) -> list[Values]:
    """The two planes that count: time with dynamic energy (energy - wait power x time), and with total energy.

    The front of the first holds that of the second, for what is no slower and has no more dynamic energy has no
    more energy either.
    """
    dynamic_j = energy_j - wait_power_w * time_s
    return [np.stack((time_s, other), axis=-1) for other in (dynamic_j, energy_j)]


def seen_reference(values: Values) -> NDArray[np.float64]:
    """The worst that was seen, and a little more; energies are negative where a wait draws more than the work."""
    worst = values.max(axis=0)
    reference: NDArray[np.float64] = worst + (MARGIN - 1) * np.abs(worst)
    return reference
