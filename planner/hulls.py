"""Lower convex hulls of fronts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def lower_hull(time_s: Sequence[float], energy_j: Sequence[float]) -> NDArray[np.int64]:
    """Indices of the vertices of the lower convex hull of a front (times rising, energies falling)."""
    kept: list[int] = []
    for index in range(len(time_s)):
        while len(kept) >= 2 and _is_above(time_s, energy_j, kept[-2], kept[-1], index):
            kept.pop()
        kept.append(index)
    return np.array(kept, dtype=np.int64)


def _is_above(time_s: Sequence[float], energy_j: Sequence[float], left: int, middle: int, right: int) -> bool:
    """Whether `middle` lies on or above the line from `left` to `right`."""
    rise = (energy_j[middle] - energy_j[left]) * (time_s[right] - time_s[left])
    return rise >= (energy_j[right] - energy_j[left]) * (time_s[middle] - time_s[left])
