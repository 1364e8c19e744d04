"""Where an operation's options come from: lists of them, and exact fronts of one way at one clock.

A front may have a hundred thousand points, so that options are made of chosen ones only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.composition.minkowski import Part, SumFront, minkowski_front
from energyopt.planner.composition.rows import Way
from energyopt.planner.composition.shares import Shares, against_reference_j
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import named


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """Options one by one: what was measured as a whole, or what has several clocks."""

    listed: Sequence[tuple[Option, Shares]]
    wait_power_w: float

    @property
    def time_s(self) -> Floats:
        """Their times."""
        return np.array([option.time_s for option, _ in self.listed], dtype=np.float64)

    @property
    def effective_j(self) -> Floats:
        """Their effective energies."""
        energy_j = np.array([option.energy_j for option, _ in self.listed], dtype=np.float64)
        return energy_j - self.wait_power_w * self.time_s

    def options(self, points: Ints) -> list[tuple[Option, Shares]]:
        """The options behind some points."""
        return [self.listed[point] for point in points.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """The front of one way at one clock; scale: what times and energies are multiplied by."""

    way: Way
    clock_mhz: int
    front: SumFront
    scale: tuple[float, float]
    wait_power_w: float

    @property
    def time_s(self) -> Floats:
        """Times of the front's points."""
        return self.front.time_s

    @property
    def effective_j(self) -> Floats:
        """Effective energies of the front's points."""
        return self.front.energy_j

    def options(self, points: Ints) -> list[tuple[Option, Shares]]:
        """The options behind some points."""
        choices = self.way.clocks[self.clock_mhz]
        picked_MP = self.front.choices(points)
        saved_j = np.zeros(len(points))
        for column, one in enumerate(choices):
            saved_j += against_reference_j(one, self.scale, self.wait_power_w)[picked_MP[:, column]]
        return [
            (self._option(point, picks), Shares(sm_j=one_j))
            for point, picks, one_j in zip(points.tolist(), picked_MP.tolist(), saved_j.tolist(), strict=True)
        ]

    def _option(self, point: int, picks: list[int]) -> Option:
        choices = self.way.clocks[self.clock_mhz]
        energy_j = sum(float(one.energy_j[pick]) for one, pick in zip(choices, picks, strict=True))
        configs = [(one.partition, one.configs[pick]) for one, pick in zip(choices, picks, strict=True)]
        return Option(
            sm_clock_mhz=self.clock_mhz,
            time_s=float(self.time_s[point]),
            energy_j=energy_j * self.scale[1],
            nanobatches=self.way.nanobatches,
            partitions=named(configs),
        )


Source = Listed | Front


def front_of(way: Way, clock: int, scale: tuple[float, float], wait_power_w: float) -> Front:
    """The exact front of one way at one clock."""
    parts = []
    for one in way.clocks[clock]:
        time_s, energy_j = one.time_s * scale[0], one.energy_j * scale[1]
        parts.append(Part(time_s=time_s, energy_j=energy_j - wait_power_w * time_s))
    front = minkowski_front(parts)
    return Front(way=way, clock_mhz=clock, front=front, scale=scale, wait_power_w=wait_power_w)


def points_of(sources: Sequence[Source]) -> tuple[Floats, Floats]:
    """Times and effective energies of all sources, one after the other."""
    return (
        np.concatenate([one.time_s for one in sources]),
        np.concatenate([one.effective_j for one in sources]),
    )


def options_of(sources: Sequence[Source], points: Ints) -> dict[Option, Shares]:
    """The options behind indices into all sources' points, one source after the other."""
    found: dict[Option, Shares] = {}
    for source, own in _by_source(sources, points):
        found.update(source.options(own))
    return found


def _by_source(sources: Sequence[Source], points: Ints) -> Iterator[tuple[Source, Ints]]:
    """Indices into all sources' points, as indices into each source's own."""
    first = np.concatenate(([0], np.cumsum([len(one.time_s) for one in sources])))
    for index, source in enumerate(sources):
        own = points[(first[index] <= points) & (points < first[index + 1])]
        yield source, own - first[index]
