"""Lower convex hulls of fronts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.arrays import Floats

_FEW = 1000  # points that are looked at one by one
_PROGRESS = 0.95


def lower_hull(time_s: Sequence[float], energy_j: Sequence[float]) -> NDArray[np.int64]:
    """Indices of the vertices of the lower convex hull of a front (times rising, energies falling)."""
    promising = _promising(np.asarray(time_s), np.asarray(energy_j))
    kept: list[int] = []
    for index in promising.tolist():
        while len(kept) >= 2 and _is_above(time_s, energy_j, kept[-2], kept[-1], index):
            kept.pop()
        kept.append(index)
    return np.array(kept, dtype=np.int64)


def _promising(time_s: Floats, energy_j: Floats) -> NDArray[np.int64]:
    """The vertices and perhaps more: of a long front, points on or above the line between their neighbours go."""
    left = np.arange(len(time_s))
    while len(left) > _FEW:
        time, energy = time_s[left], energy_j[left]
        rise = (energy[1:-1] - energy[:-2]) * (time[2:] - time[:-2])
        below = rise < (energy[2:] - energy[:-2]) * (time[1:-1] - time[:-2])
        kept = np.concatenate(([True], below, [True]))
        if kept.sum() > _PROGRESS * len(left):
            break
        left = left[kept]
    return left


def _is_above(time_s: Sequence[float], energy_j: Sequence[float], left: int, middle: int, right: int) -> bool:
    """Whether `middle` lies on or above the line from `left` to `right`."""
    rise = (energy_j[middle] - energy_j[left]) * (time_s[right] - time_s[left])
    return rise >= (energy_j[right] - energy_j[left]) * (time_s[middle] - time_s[left])
