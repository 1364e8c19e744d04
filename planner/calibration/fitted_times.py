"""The time of every operation of every run by the fitted curves, replica by replica."""

from collections.abc import Mapping, Sequence

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.calibration.op_times import Curve
from energyopt.planner.calibration.samples import Sample
from energyopt.schemas.ops import OpKey, Schedule


def fitted_times(
    schedule: Schedule, samples: Sequence[Sample], curves: Mapping[OpKey, Curve], slowest: int
) -> list[Floats]:
    """Of each run, [G, n]; the curves are those of replica `slowest`.

    Another replica's operations of a key take as much longer as they did in the mean of the runs.
    """
    keys = [op.key for op in schedule.ops]
    found = [_by_curves(keys, one, curves) for one in samples]
    weights = np.array([one.weight for one in samples])
    for key in curves:
        places = [number for number, one in enumerate(keys) if one == key]
        shares = [
            (one.op_time_s[:, places] / curve_s[:, places]).mean(axis=1)
            for one, curve_s in zip(samples, found, strict=True)
        ]
        longer = np.average(shares, axis=0, weights=weights)  # [G]
        for curve_s in found:
            curve_s[:, places] *= (longer / longer[slowest])[:, None]
    return found


def _by_curves(keys: Sequence[OpKey], sample: Sample, curves: Mapping[OpKey, Curve]) -> Floats:
    found = np.empty(sample.op_time_s.shape)
    for replica, clocks in enumerate(sample.clock_mhz.tolist()):
        pairs = list(zip(keys, clocks, strict=True))
        known = {pair: float(curves[pair[0]].at(np.array([pair[1]]))[0]) for pair in set(pairs)}
        found[replica] = [known[pair] for pair in pairs]
    return found
