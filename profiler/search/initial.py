"""The first overlapped points of a space: its slowest corner, then points far from each other."""

import numpy as np

from energyopt.profiler.search.space import Space

FIRST = 4
"""How many; what other partitions of the job show makes up for more."""

_JITTER = 0.15


def first_points(space: Space, seed: int, count: int = FIRST) -> list[int]:
    """Overlapped points to begin with.

    The lowest clock with the fewest SMs and the latest launch is about the worst of the space: it bounds the
    fronts, which reach far towards slow points that save dynamic energy.
    """
    overlapped = np.arange(len(space.sequential), len(space))
    if not len(overlapped):
        return []
    where = space.coordinates()[:, :3]
    corner = min(overlapped, key=lambda one: (where[one, 0] + where[one, 1], -where[one, 2]))
    generator = np.random.default_rng([seed, *space.name.encode()])
    jitter = _JITTER * generator.random(len(overlapped))
    chosen = [int(corner)]
    while len(chosen) < min(count, len(overlapped)):
        apart = np.abs(where[overlapped, None] - where[None, chosen]).sum(axis=2).min(axis=1) + jitter
        apart[np.isin(overlapped, chosen)] = -1.0
        chosen.append(int(overlapped[np.argmax(apart)]))
    return chosen
