"""Options whose partitions run at different clocks, where a change of the clock costs time and energy.

Composed options have one clock, for which their fronts are exact sums. Here every partition has its own, and clocks
and configurations are chosen together (`mixed_search`). An operation starts and ends at one clock, its own: that of
the partition that runs first. What changes inside it is paid for in its time and energy and counts in no number of
clock changes, so that changes between operations mean what they always mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.composition.changes import Ring, ring_of
from energyopt.planner.composition.minkowski import pareto_indices
from energyopt.planner.composition.mixed_search import DEADLINES, find_choices
from energyopt.planner.composition.rows import Way
from energyopt.planner.composition.shares import Shares, against_reference_j, plain_place
from energyopt.planner.composition.switching import Mixing, SwitchCost
from energyopt.planner.formulations.cvxpy_mixed import MixedChoice, MixedProblem
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import named

Scales = Mapping[int, tuple[float, float]]
"""By clock, what times and energies of partitions are multiplied by."""


def mixed_options(
    way: Way,
    mixing: Mixing,
    scales: Scales,
    wait_power_w: float,
    known: tuple[Floats, Floats],
    deadlines: int | None = DEADLINES,
) -> list[tuple[Option, Shares]]:
    """Options of one way with more than one clock.

    known: times and effective energies of what the way can do at one clock. deadlines: see `find_choices`.

    Raises:
        ProfileError: the order of the partitions matters and is not known.
        SolverError: a choice was not proven to be the best.
    """
    partitions = next(iter(way.clocks.values()), ())
    if len(way.clocks) < 2 or len(partitions) < 2:
        return []
    ring = ring_of(partitions, mixing.order, mixing.what)
    items = _items(way, scales, wait_power_w)
    problem = _problem(items, ring, mixing.cost, wait_power_w)
    found = {one.items: one for one in find_choices(problem, known, deadlines)}
    maker = _Maker(way, scales, wait_power_w, mixing.cost, first=ring.order[0])
    return [maker.option(one, [items[index] for index in one.items]) for one in found.values()]


class _Item(NamedTuple):
    """One configuration of one partition at one clock, scaled."""

    partition: int
    clock_mhz: int
    place: int
    time_s: float
    energy_j: float


def _items(way: Way, scales: Scales, wait_power_w: float) -> list[_Item]:
    """What each partition can run at: of each clock the configurations that no other beats."""
    found = []
    for clock, choices in sorted(way.clocks.items()):
        of_time, of_energy = scales[clock]
        for partition, one in enumerate(choices):
            time_s, energy_j = one.time_s * of_time, one.energy_j * of_energy
            front = pareto_indices(time_s, energy_j - wait_power_w * time_s)
            costs = zip(front.tolist(), time_s[front].tolist(), energy_j[front].tolist(), strict=True)
            found += [_Item(partition, clock, *cost) for cost in costs]
    return found


def _problem(items: Sequence[_Item], ring: Ring, cost: SwitchCost, wait_power_w: float) -> MixedProblem:
    time_s = np.array([one.time_s for one in items])
    clocks = np.array([one.clock_mhz for one in items])
    return MixedProblem(
        partition=np.array([one.partition for one in items]),
        clock=np.searchsorted(np.unique(clocks), clocks),
        time_s=time_s,
        effective_j=np.array([one.energy_j for one in items]) - wait_power_w * time_s,
        steps=ring.steps,
        change_s=cost.time_s,
        change_j=max(0.0, cost.energy_j - wait_power_w * cost.time_s),
    )


class _Maker:
    """Makes options of choices."""

    def __init__(
        self, way: Way, scales: Scales, wait_power_w: float, cost: SwitchCost, *, first: int
    ) -> None:
        """first: the partition whose clock is the operation's own."""
        self._way, self._scales, self._wait_power_w = way, scales, wait_power_w
        self._cost, self._first = cost, first

    def option(self, choice: MixedChoice, picked: Sequence[_Item]) -> tuple[Option, Shares]:
        own_mhz = picked[self._first].clock_mhz
        configs = []
        for item in picked:
            one = self._way.clocks[item.clock_mhz][item.partition]
            clock = None if item.clock_mhz == own_mhz else item.clock_mhz
            configs.append((one.partition, replace(one.configs[item.place], sm_clock_mhz=clock)))
        option = Option(
            sm_clock_mhz=own_mhz,
            time_s=choice.time_s,
            energy_j=sum(item.energy_j for item in picked) + choice.changes * self._cost.energy_j,
            nanobatches=self._way.nanobatches,
            partitions=named(configs),
        )
        return option, self._shares(choice, picked, own_mhz)

    def _shares(self, choice: MixedChoice, picked: Sequence[_Item], own_mhz: int) -> Shares:
        """Own clocks are valued on what runs plainly, less the changes; SM counts at the clocks they run at."""
        clock_j = -choice.changes * (self._cost.energy_j - self._wait_power_w * self._cost.time_s)
        sm_j = 0.0
        for item in picked:
            one = self._way.clocks[item.clock_mhz][item.partition]
            sm_j += float(
                against_reference_j(one, self._scales[item.clock_mhz], self._wait_power_w)[item.place]
            )
            clock_j += self._plain_j(item.partition, own_mhz) - self._plain_j(item.partition, item.clock_mhz)
        return Shares(clock_j=clock_j, sm_j=sm_j)

    def _plain_j(self, partition: int, clock_mhz: int) -> float:
        """Effective energy of a partition that runs plainly; nothing where that was not measured."""
        one = self._way.clocks[clock_mhz][partition]
        place = plain_place(one)
        if place is None:
            return 0.0
        of_time, of_energy = self._scales[clock_mhz]
        return (
            float(one.energy_j[place]) * of_energy - self._wait_power_w * float(one.time_s[place]) * of_time
        )
