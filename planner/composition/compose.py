"""An operation's options from its partitions: all ways and all clocks in one front.

For each way and clock the front is the Minkowski sum of its partitions' fronts in time and effective energy, which
add up. Where the operation was also measured as a whole (its own row, by the profiler or by `calibrate` from
training), that row is what runs without a plan, and its ratio to the plain sum of the partitions scales everything
composed at that clock: what lies between the partitions in training is not forgotten.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.composition.minkowski import Part, SumFront, minkowski_front, pareto_indices
from energyopt.planner.composition.rows import Choices, Way
from energyopt.planner.composition.thinning import thinned_to
from energyopt.planner.hulls import lower_hull
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import Execution, named


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Composed:
    """An operation's options.

    offered: by number of nanobatches, those that plans choose from, fastest first: the way's front, thinned.
    measured: these, all vertices of the fronts' lower hulls, and what runs without a plan at every clock.
    error: how much dearer thinning can make the operation, relative to its least energy; 0 where nothing was
        left out.
    sm_share_j: what the offered options' SM counts and launch points save in effective energy, against overlapping
        with the SMs that the library chooses; 0 for those that do not overlap.
    """

    offered: dict[int, tuple[Option, ...]]
    measured: tuple[Option, ...]
    error: float
    sm_share_j: dict[Option, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reduced:
    """What is left of the options of one way: the offered ones, the hull's others, and the error."""

    offered: tuple[Option, ...]
    beyond: tuple[Option, ...]
    error: float
    sm_share_j: dict[Option, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Source:
    """Options of one way at one clock, or (without `front`) one option that was measured as a whole."""

    clock_mhz: int
    time_s: Floats
    effective_j: Floats
    whole: Option | None = None
    way: Way | None = None
    front: SumFront | None = None
    scale: tuple[float, float] = (1.0, 1.0)  # of time and energy


def compose(
    ways: Sequence[Way], whole: Mapping[int, Option], wait_power_w: float, most: int | None
) -> Composed:
    """All options of an operation, of which at most so many are offered for each way (None: all).

    whole: by clock, what the operation costs as one row, plain.
    """
    ways = sorted(ways, key=lambda way: way.nanobatches)
    plain = next((way for way in ways if way.nanobatches == 1), None)
    sources: dict[int, list[_Source]] = {}
    if whole:
        sources[1] = [_whole(option, wait_power_w) for _, option in sorted(whole.items())]
    for way in ways:
        sources.setdefault(way.nanobatches, []).extend(
            _composed(way, clock, scale_at(plain, clock, whole.get(clock)), wait_power_w)
            for clock in sorted(way.clocks)
            if clock not in whole or _adds_something(way, clock)
        )
    reduced = {count: _reduced(own, wait_power_w, most) for count, own in sources.items() if own}
    every = [source for own in sources.values() for source in own]
    found = {*_unplanned(every, ways, whole)}
    for one in reduced.values():
        found |= {*one.offered, *one.beyond}
    return Composed(
        offered={count: one.offered for count, one in reduced.items()},
        measured=tuple(sorted(found, key=_order)),
        error=max(one.error for one in reduced.values()),
        sm_share_j={
            option: saved_j for one in reduced.values() for option, saved_j in one.sm_share_j.items()
        },
    )


def _reduced(sources: Sequence[_Source], wait_power_w: float, most: int | None) -> _Reduced:
    time_s = np.concatenate([one.time_s for one in sources])
    effective_j = np.concatenate([one.effective_j for one in sources])
    front = pareto_indices(time_s, effective_j)
    hull = lower_hull(time_s[front].tolist(), effective_j[front].tolist())
    last = np.array([len(front) - 1])
    corners = last if most is not None and 4 * len(hull) > 3 * most else hull  # mixtures need the hull
    kept, error_j = thinned_to(effective_j[front], corners, len(front) if most is None else most)
    chosen = front[kept]
    offered = _options(sources, chosen)
    return _Reduced(
        offered=tuple(sorted(set(offered), key=lambda one: one.time_s)),
        beyond=_options(sources, np.setdiff1d(front[hull], chosen)),
        error=error_j / min(option.energy_j for option in offered),
        sm_share_j=_sm_shares(sources, chosen, wait_power_w),
    )


def _order(option: Option) -> tuple[int, float, float]:
    return option.sm_clock_mhz, option.time_s, option.energy_j


def _whole(option: Option, wait_power_w: float) -> _Source:
    effective_j = option.energy_j - wait_power_w * option.time_s
    return _Source(
        clock_mhz=option.sm_clock_mhz,
        time_s=np.array([option.time_s]),
        effective_j=np.array([effective_j]),
        whole=option,
    )


def _adds_something(way: Way, clock: int) -> bool:
    """Whether a way is more than what the operation's own row says."""
    return way.nanobatches > 1 or any(
        not config.is_plain for one in way.clocks[clock] for config in one.configs
    )


def _composed(way: Way, clock: int, scale: tuple[float, float], wait_power_w: float) -> _Source:
    parts = []
    for one in way.clocks[clock]:
        time_s, energy_j = one.time_s * scale[0], one.energy_j * scale[1]
        parts.append(Part(time_s=time_s, energy_j=energy_j - wait_power_w * time_s))
    front = minkowski_front(parts)
    return _Source(
        clock_mhz=clock, time_s=front.time_s, effective_j=front.energy_j, way=way, front=front, scale=scale
    )


def scale_at(plain: Way | None, clock: int, whole: Option | None) -> tuple[float, float]:
    """What the operation takes and costs as a whole, relative to the plain sum of its partitions."""
    if plain is None or whole is None or clock not in plain.clocks:
        return 1.0, 1.0
    sums = _plain_sum(plain.clocks[clock])
    return (1.0, 1.0) if sums is None else (whole.time_s / sums[0], whole.energy_j / sums[1])


def _plain_sum(choices: Sequence[Choices]) -> tuple[float, float] | None:
    """Time and energy of all partitions run plainly; None where one was not measured so."""
    time_s = energy_j = 0.0
    for one in choices:
        place = next((index for index, config in enumerate(one.configs) if config.is_plain), None)
        if place is None:
            return None
        time_s += float(one.time_s[place])
        energy_j += float(one.energy_j[place])
    return time_s, energy_j


def _unplanned(
    sources: Sequence[_Source], ways: Sequence[Way], whole: Mapping[int, Option]
) -> tuple[Option, ...]:
    """What runs without a plan at each clock: all partitions plainly, in the way that cuts the microbatch least.

    Where partitions were never measured so, it is the fastest that was measured at that clock.
    """
    found = dict(whole)
    for way in ways:
        for clock, choices in way.clocks.items():
            sums = _plain_sum(choices)
            if clock not in found and sums is not None:
                found[clock] = Option(
                    sm_clock_mhz=clock, time_s=sums[0], energy_j=sums[1], nanobatches=way.nanobatches
                )
    for source in sources:
        if source.clock_mhz not in found:
            found[source.clock_mhz] = _of_front(source, np.zeros(1, dtype=np.int64))[0]
    return tuple(found.values())


def _sm_shares(sources: Sequence[_Source], points: Ints, wait_power_w: float) -> dict[Option, float]:
    """For options that overlap, what their SM counts and launch points save."""
    found: dict[Option, float] = {}
    for source, own in _by_source(sources, points):
        if source.front is None or source.way is None or not len(own):
            continue
        choices = source.way.clocks[source.clock_mhz]
        saved_j = np.zeros(len(own))
        for column, one in enumerate(choices):
            saved_j += _against_reference_j(one, source.scale, wait_power_w)[
                source.front.choices(own)[:, column]
            ]
        found.update(zip(_of_front(source, own), saved_j.tolist(), strict=True))
    return found


def _against_reference_j(one: Choices, scale: tuple[float, float], wait_power_w: float) -> Floats:
    """What each overlapped choice saves against overlapping as a library does by itself, [K].

    That is with its own choice of SMs where this was measured, else with the most that were; of its launch points
    the fastest.
    """
    effective_j = one.energy_j * scale[1] - wait_power_w * one.time_s * scale[0]
    overlapped = [k for k, config in enumerate(one.configs) if config.execution is Execution.OVERLAPPED]
    if not overlapped:
        return np.zeros(len(one.configs))
    reference = min(overlapped, key=lambda k: (-(one.configs[k].comm_sms or np.inf), one.time_s[k]))
    is_overlapped = np.isin(np.arange(len(one.configs)), overlapped)
    return np.where(is_overlapped, effective_j[reference] - effective_j, 0.0)


def _by_source(sources: Sequence[_Source], points: Ints) -> Iterator[tuple[_Source, Ints]]:
    """Indices into all sources' points, as indices into each source's own."""
    first = np.concatenate(([0], np.cumsum([len(one.time_s) for one in sources])))
    for index, source in enumerate(sources):
        own = points[(first[index] <= points) & (points < first[index + 1])]
        yield source, own - first[index]


def _options(sources: Sequence[_Source], points: Ints) -> tuple[Option, ...]:
    """The options behind indices into all sources' points, one source after the other."""
    found: list[Option] = []
    for source, own in _by_source(sources, points):
        if source.whole is not None:
            found += [source.whole] * len(own)
        elif len(own):
            found += _of_front(source, own)
    return tuple(found)


def _of_front(source: _Source, points: Ints) -> list[Option]:
    assert source.way is not None and source.front is not None
    choices = source.way.clocks[source.clock_mhz]
    picked_MP = source.front.choices(points)
    found = []
    for point, picks in zip(points.tolist(), picked_MP.tolist(), strict=True):
        energy_j = sum(float(one.energy_j[pick]) for one, pick in zip(choices, picks, strict=True))
        configs = [(one.partition, one.configs[pick]) for one, pick in zip(choices, picks, strict=True)]
        found.append(
            Option(
                sm_clock_mhz=source.clock_mhz,
                time_s=float(source.time_s[point]),
                energy_j=energy_j * source.scale[1],
                nanobatches=source.way.nanobatches,
                partitions=named(configs),
            )
        )
    return found
