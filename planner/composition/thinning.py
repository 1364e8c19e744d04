"""Fronts of thousands of points, reduced to as many as a plan can use, with a stated error.

A point is left out if a faster one that stays costs at most a given energy more: whatever plan uses it has a
counterpart among the points that stay, as fast and at most that much dearer.
"""

import numpy as np

from energyopt.planner.arrays import Floats, Ints

_HALVINGS = 60


def thinned(energy_j: Floats, corners: Ints, allowed_j: float) -> Ints:
    """Indices of the points that stay, of a front sorted by rising time and falling energy; all corners do.

    corners: rising; the first point stays in any case. allowed_j: how much dearer a faster point may be that stands
    for one that is left out.
    """
    kept, falling, last = [0], -energy_j, len(energy_j)
    wanted = iter([*corners[corners > 0].tolist(), last])
    corner = next(wanted)
    while True:  # each time the first point that the last kept one cannot stand for
        dearest_j = energy_j[kept[-1]] - allowed_j
        following = max(int(np.searchsorted(falling, -dearest_j, side="right")), kept[-1] + 1)
        if following >= corner:
            following, corner = corner, next(wanted, last)
        if following >= last:
            return np.array(kept, dtype=np.int64)
        kept.append(following)


def thinned_to(energy_j: Floats, corners: Ints, most: int) -> tuple[Ints, float]:
    """At most so many points, or the corners alone, and the energy that they are dearer by at most.

    That is the least that is enough.
    """
    if len(energy_j) <= most:
        return np.arange(len(energy_j)), 0.0
    low_j, high_j = 0.0, float(energy_j[0] - energy_j[-1]) * (1 + 1e-9)  # at which the first stands for all
    for _ in range(_HALVINGS):
        middle_j = (low_j + high_j) / 2
        if len(thinned(energy_j, corners, middle_j)) <= most:
            high_j = middle_j
        else:
            low_j = middle_j
    return thinned(energy_j, corners, high_j), high_j
