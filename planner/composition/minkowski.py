"""Exact Pareto fronts of sums: one choice from each of several lists, added up.

The full product of P lists of K choices has K^P members. Pruned to its Pareto front after every addition, the sum
stays small, and nothing is lost: what is dominated in a part is dominated in every sum that it is part of.

Legend: K choices of one part, N points of a front, P parts. Fronts are sorted by rising time and falling energy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints

_FEW = 20_000  # sums that are sorted at once; more are sifted first
_BINS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The choices that one part offers; energies may be effective ones, and negative."""

    time_s: Floats  # [K]
    energy_j: Floats  # [K]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumFront:
    """The front of a sum, and how each of its points comes about."""

    time_s: Floats  # [N]
    energy_j: Floats  # [N]
    steps: tuple["_Step", ...]

    def choices(self, points: Ints) -> Ints:
        """Which choice of each part makes these points [M], [M, P]."""
        found = np.empty((len(points), len(self.steps)), dtype=np.int64)
        for index in range(len(self.steps) - 1, -1, -1):
            step = self.steps[index]
            found[:, index] = step.choice[points]
            points = step.before[points]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """One addition: the point of the front before it and the choice of the part, for each point after it, [N]."""

    before: Ints
    choice: Ints


def pareto_indices(time_s: Floats, energy_j: Floats) -> Ints:
    """The points that no other beats in time and energy, by rising time; of equal points the first."""
    order = np.argsort(time_s, kind="stable")
    energy = energy_j[order]
    least = np.minimum.accumulate(energy)
    keep = np.ones(len(order), dtype=np.bool_)
    np.less(energy[1:], least[:-1], out=keep[1:])
    kept = order[keep]
    last = np.ones(len(kept), dtype=np.bool_)  # of equal times, energies fall: the last is the least
    np.less(time_s[kept[:-1]], time_s[kept[1:]], out=last[:-1])
    return np.asarray(kept[last])


def minkowski_front(parts: Sequence[Part]) -> SumFront:
    """The Pareto front of all sums of one choice from each part, exactly.

    Sums are made in the order of the parts, so that the same parts give the same numbers to the last bit.
    """
    time_s, energy_j = np.zeros(1), np.zeros(1)
    steps = []
    for part in parts:
        own = pareto_indices(part.time_s, part.energy_j)
        total_s = part.time_s[own][:, None] + time_s
        total_j = part.energy_j[own][:, None] + energy_j
        kept = _front_of_sums(total_s, total_j)
        choice, before = np.divmod(kept, len(time_s))
        time_s, energy_j = total_s.ravel()[kept], total_j.ravel()[kept]
        steps.append(_Step(before=before, choice=own[choice]))
    return SumFront(time_s=time_s, energy_j=energy_j, steps=tuple(steps))


def _front_of_sums(time_s: Floats, energy_j: Floats) -> Ints:
    """The front's flat indices into [K, N] sums."""
    if time_s.size <= _FEW:
        return pareto_indices(time_s.ravel(), energy_j.ravel())
    promising = np.flatnonzero(_sifted(time_s, energy_j))
    kept = pareto_indices(time_s.ravel()[promising], energy_j.ravel()[promising])
    return np.asarray(promising[kept])


def _sifted(time_s: Floats, energy_j: Floats) -> Flags:
    """Sums that no sum of a clearly shorter time beats: those of the front, and some more.

    Times are put into bins; whatever costs more than the least of all earlier bins is dominated. Most sums go this
    way, and sorting them, which takes longest, is saved.
    """
    low_s, high_s = time_s.min(), time_s.max()
    scale = _BINS / (high_s - low_s) if high_s > low_s else 0.0
    bins = np.minimum(((time_s - low_s) * scale).astype(np.int64), _BINS - 1)
    least = np.full(_BINS, np.inf)
    np.minimum.at(least, bins.ravel(), energy_j.ravel())
    earlier = np.concatenate(([np.inf], np.minimum.accumulate(least)[:-1]))
    return np.asarray(energy_j <= earlier[bins])
