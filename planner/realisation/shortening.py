"""Durations of relaxed solutions that overrun their deadline, shortened until they keep it.

The aggregated relaxation keeps dependencies only in the mean of a class, so that the longest path through its
durations can be a tenth of a percent too long. What an operation has beyond its fastest option is cut in proportion
to what its longest path has to lose, and again until all paths fit.

Legend: n operations in the sweeper's order, W solutions (columns).
"""

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.realisation.sweeps import Sweeper

_ROUNDS = 8
_FITS = 1e-9  # relative overrun that counts as none


def shortened(sweeper: Sweeper, time_s: Floats, fastest_s: Floats, deadline_s: Floats) -> Floats:
    """Durations [n, W] that keep their deadlines [W], as far as a few rounds get; never below the fastest [n]."""
    for _ in range(_ROUNDS):
        through_s, spare_s = sweeper.longest_paths(time_s, time_s - fastest_s[:, None])
        excess_s = np.maximum(through_s - deadline_s, 0.0)
        if not (excess_s > _FITS * deadline_s).any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(spare_s > 0, np.minimum(excess_s / spare_s, 1.0), 1.0)
        time_s = np.where(excess_s > 0, time_s - (time_s - fastest_s[:, None]) * share, time_s)
    return time_s
