"""An operation's options from its partitions: all ways and all clocks in one front.

For each way and clock the front is the Minkowski sum of its partitions' fronts in time and effective energy, which
add up. Where the operation was also measured as a whole (its own row, by the profiler or by `calibrate` from
training), that row is what runs without a plan, and its ratio to the plain sum of the partitions scales everything
composed at that clock: what lies between the partitions in training is not forgotten. A clock at which a partition
was not measured plainly takes the ratio of the nearest clock at which all were.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.composition.minkowski import pareto_indices
from energyopt.planner.composition.rows import Choices, Way
from energyopt.planner.composition.shares import Shares, plain_place
from energyopt.planner.composition.sources import Front, Listed, Source, front_of, options_of, points_of
from energyopt.planner.composition.switching import Mixing
from energyopt.planner.composition.thinning import thinned_to
from energyopt.planner.hulls import lower_hull
from energyopt.schemas.options import Option


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Composed:
    """An operation's options.

    offered: by number of nanobatches, those that plans choose from, fastest first: the way's front, thinned.
    measured: these, all vertices of the fronts' lower hulls, and what runs without a plan at every clock.
    error: how much dearer thinning can make the operation, relative to its least energy; 0 where nothing was
        left out.
    shares: what these save by more than the operation's clock and by overlapping; not of what runs without a plan.
    """

    offered: dict[int, tuple[Option, ...]]
    measured: tuple[Option, ...]
    error: float
    shares: dict[Option, Shares]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reduced:
    """What is left of the options of one way: the offered ones, the hull's others, and the error."""

    offered: dict[Option, Shares]
    beyond: dict[Option, Shares]
    error: float


def compose(
    ways: Sequence[Way],
    whole: Mapping[int, Option],
    wait_power_w: float,
    most: int | None,
    mixing: Mixing | None = None,
) -> Composed:
    """All options of an operation, of which at most so many are offered for each way (None: all).

    whole: by clock, what the operation costs as one row, plain. mixing: where partitions may run at different
    clocks.
    """
    ways = sorted(ways, key=lambda way: way.nanobatches)
    plain = next((way for way in ways if way.nanobatches == 1), None)
    listed = [(option, Shares(sm_j=0.0)) for _, option in sorted(whole.items())]
    sources: dict[int, list[Source]] = (
        {1: [Listed(listed=listed, wait_power_w=wait_power_w)]} if whole else {}
    )
    fronts = []
    for way in ways:
        scales = scales_at(plain, whole, sorted(way.clocks))
        own = [
            front_of(way, clock, scale, wait_power_w)
            for clock, scale in scales.items()
            if clock not in whole or _adds_something(way, clock)
        ]
        fronts += own
        known = sources.setdefault(way.nanobatches, [])
        known += own
        if mixing is not None and known:
            # loaded here: it brings cvxpy, which takes a second
            from energyopt.planner.composition.mixed_clocks import mixed_options

            mixed = mixed_options(way, mixing, scales, wait_power_w, points_of(known))
            known.append(Listed(listed=mixed, wait_power_w=wait_power_w))
    reduced = {count: _reduced(own, most) for count, own in sources.items() if own}
    found = {*_unplanned(fronts, ways, whole)}
    for one in reduced.values():
        found |= {*one.offered, *one.beyond}
    return Composed(
        offered={count: _by_time(one.offered) for count, one in reduced.items()},
        measured=tuple(sorted(found, key=_order)),
        error=max(one.error for one in reduced.values()),
        shares={
            option: shares
            for one in reduced.values()
            for option, shares in (one.offered | one.beyond).items()
        },
    )


def _reduced(sources: Sequence[Source], most: int | None) -> _Reduced:
    time_s, effective_j = points_of(sources)
    front = pareto_indices(time_s, effective_j)
    hull = lower_hull(time_s[front].tolist(), effective_j[front].tolist())
    last = np.array([len(front) - 1])
    corners = last if most is not None and 4 * len(hull) > 3 * most else hull  # mixtures need the hull
    kept, error_j = thinned_to(effective_j[front], corners, len(front) if most is None else most)
    offered = options_of(sources, front[kept])
    return _Reduced(
        offered=offered,
        beyond=options_of(sources, np.setdiff1d(front[hull], front[kept])),
        error=error_j / min(option.energy_j for option in offered),
    )


def _by_time(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(options, key=lambda one: one.time_s))


def _order(option: Option) -> tuple[int, float, float]:
    return option.sm_clock_mhz, option.time_s, option.energy_j


def _adds_something(way: Way, clock: int) -> bool:
    """Whether a way is more than what the operation's own row says."""
    return way.nanobatches > 1 or any(
        not config.is_plain for one in way.clocks[clock] for config in one.configs
    )


def scales_at(
    plain: Way | None, whole: Mapping[int, Option], clocks: Iterable[int]
) -> dict[int, tuple[float, float]]:
    """By clock, what the operation takes and costs as a whole, relative to the plain sum of its partitions.

    A clock that does not tell takes the ratio of the nearest one that does, of two equally near the lower; 1 where
    none tells (see `tells_scale`).
    """
    ratios = _ratios(plain, whole)
    if not ratios:
        return dict.fromkeys(clocks, (1.0, 1.0))
    return {clock: ratios[min(ratios, key=lambda one: (abs(one - clock), one))] for clock in clocks}


def tells_scale(ways: Iterable[Way], whole: Mapping[int, Option]) -> bool:
    """Whether at any clock both the operation and all its partitions, run plainly, were measured."""
    return any(_ratios(way, whole) for way in ways if way.nanobatches == 1)


def _ratios(plain: Way | None, whole: Mapping[int, Option]) -> dict[int, tuple[float, float]]:
    found = {}
    for clock, choices in () if plain is None else plain.clocks.items():
        sums = _plain_sum(choices)
        if clock in whole and sums is not None:
            found[clock] = whole[clock].time_s / sums[0], whole[clock].energy_j / sums[1]
    return found


def _plain_sum(choices: Sequence[Choices]) -> tuple[float, float] | None:
    """Time and energy of all partitions run plainly; None where one was not measured so."""
    time_s = energy_j = 0.0
    for one in choices:
        place = plain_place(one)
        if place is None:
            return None
        time_s += float(one.time_s[place])
        energy_j += float(one.energy_j[place])
    return time_s, energy_j


def _unplanned(
    fronts: Sequence[Front], ways: Sequence[Way], whole: Mapping[int, Option]
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
    for front in fronts:
        if front.clock_mhz not in found:
            found[front.clock_mhz] = front.options(np.zeros(1, dtype=np.int64))[0][0]
    return tuple(found.values())
