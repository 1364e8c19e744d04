"""Plans whose steady state moves at even periods: one clock per stage, or one per kind where changes pay.

Between its ramps a pipeline moves on by one microbatch per period, and no stage may be busy for longer than that.
Only few periods waste little on every stage at once, since each stage has but a few clocks. Other iteration times
are reached best by running part of the microbatches at one such period and the rest at another.

Legend: n operations as in `Schedule.ops`, C clocks, S stages, P periods, W plans (columns).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.starts import between_ends

_LEAST_MICROBATCHES = 2
_MOST_PERIODS = 32
_MOST_COMBINATIONS = 4096  # of clocks of a stage's kinds and chunks; beyond it only shared clocks are tried
_REACH = 0.12  # relative distance from a plan's own period within which others are tried
_SAME = 1e-9  # relative difference of two periods that is rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways:
    """How a stage can run a microbatch, fastest first, each slower one cheaper: clocks [W, fronts of the stage]."""

    time_s: Floats
    cost_j: Floats
    clocks: Ints
    fronts: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steady:
    """A plan with other, even clocks in its steady state, [n, P]; `inside` [n] is where that is."""

    plans: Choices
    inside: Flags


def steady_plans(
    table: ClockTable, change_prices_j: Iterable[float], near: Choices, others: Choices
) -> Steady | None:
    """A given plan [n], others' steady states [n, W] in it, and even ones near its period for each change price.

    None where there are too few microbatches for a steady state.
    """
    inside = _inside(table, near)
    microbatches = len(np.unique(table.microbatch[inside]))
    in_each = np.bincount(table.stage_of, inside, len(table.first) - 1)
    if microbatches < _LEAST_MICROBATCHES or not in_each.all():
        return None
    own_s = float(_busy_s(table, inside, near).max()) / microbatches
    found = [near[:, None], np.where(inside[:, None], others, near[:, None])]
    found += [_even(table, inside, near, own_s, change_j) for change_j in change_prices_j]
    return Steady(plans=np.unique(np.concatenate(found, axis=1), axis=1), inside=inside)


def mixed_plans(table: ClockTable, steady: Steady, pairs: Ints, share: Floats) -> Choices:
    """Plans that run a share [W] of the steady state like the second of a pair [2, W] of plans, [n, W]."""
    microbatch = table.microbatch
    first, last = microbatch[steady.inside].min(), microbatch[steady.inside].max()
    cut = np.round(last + 1 - share * (last + 1 - first))
    later = (microbatch[:, None] >= cut) & steady.inside[:, None]
    return np.where(later, steady.plans[:, pairs[1]], steady.plans[:, pairs[0]])


def _even(table: ClockTable, inside: Flags, near: Choices, own_s: float, change_j: float) -> Choices:
    """The plan with even clocks inside, one for each thrifty period, [n, P]."""
    ways = [_ways(table, stage, inside, change_j) for stage in range(len(table.first) - 1)]
    periods_s = _thrifty(ways, table.problem.static_power_w, own_s)
    plans = np.repeat(near[:, None], len(periods_s), axis=1)
    for way in ways:
        chosen = np.searchsorted(way.time_s, periods_s * (1 + _SAME), side="right") - 1
        for column, front in enumerate(way.fronts.tolist()):
            plans[inside & (table.problem.front_of == front)] = way.clocks[chosen, column]
    return plans


def _inside(table: ClockTable, plan: Choices) -> Flags:
    """Each stage's longest run if that is most of its work; else all but S microbatches at either end, [n]."""
    inside = between_ends(table, len(table.first) - 1)
    for begin, end in pairwise(table.first.tolist()):
        first, last = _longest_run(plan[begin:end])
        if 2 * (last - first) > end - begin:
            inside[begin:end] = False
            inside[begin + first : begin + last] = True
    return inside


def _longest_run(clocks: Choices) -> tuple[int, int]:
    """Where the longest run begins, and where the next one does."""
    ends = np.concatenate(([0], np.flatnonzero(clocks[1:] != clocks[:-1]) + 1, [len(clocks)]))
    longest = int(np.diff(ends).argmax())
    return int(ends[longest]), int(ends[longest + 1])


def _busy_s(table: ClockTable, inside: Flags, plan: Choices) -> Floats:
    """How long each stage is busy inside, [S]."""
    time_s = table.time_nC[np.arange(len(plan)), plan] * inside
    return np.asarray(np.bincount(table.stage_of, time_s, len(table.first) - 1), dtype=np.float64)


def _ways(table: ClockTable, stage: int, inside: Flags, change_j: float) -> Ways:
    fronts, often = np.unique(table.problem.front_of[inside & (table.stage_of == stage)], return_counts=True)
    per_microbatch = often / often.max()
    clocks = np.arange(len(table.clocks_mhz))
    combinations = np.repeat(clocks[:, None], len(fronts), axis=1)
    measured = [np.flatnonzero(np.isfinite(table.time_FC[front])).tolist() for front in fronts.tolist()]
    if np.prod([len(one) for one in measured]) <= _MOST_COMBINATIONS:
        combinations = np.concatenate((combinations, np.array(list(product(*measured)))))
    time_s = (table.time_FC[fronts, combinations] * per_microbatch).sum(axis=1)
    cost_j = (table.effective_FC[fronts, combinations] * per_microbatch).sum(axis=1)
    changes = (combinations != np.roll(combinations, 1, axis=1)).sum(axis=1)
    changing = changes > 0
    cost_j[changing] += change_j * changes[changing]
    ranked = np.lexsort((cost_j, time_s))
    ranked = ranked[np.isfinite(time_s[ranked] + cost_j[ranked])]
    least_j = np.minimum.accumulate(cost_j[ranked])
    kept = ranked[np.concatenate(([True], cost_j[ranked][1:] < least_j[:-1]))]
    return Ways(time_s=time_s[kept], cost_j=cost_j[kept], clocks=combinations[kept], fronts=fronts)


def _thrifty(ways: list[Ways], static_w: float, own_s: float) -> Floats:
    """The periods near a given one whose cost lies least above the convex hull over them."""
    periods_s = np.unique(np.concatenate([way.time_s for way in ways]))
    fastest_s = max(float(way.time_s[0]) for way in ways)
    periods_s = periods_s[(periods_s >= fastest_s) & (np.abs(periods_s - own_s) <= _REACH * own_s)]
    if not len(periods_s):
        return np.array([fastest_s])
    cost_j = static_w * periods_s
    for way in ways:
        cost_j = cost_j + way.cost_j[np.searchsorted(way.time_s, periods_s * (1 + _SAME), side="right") - 1]
    end = int(cost_j.argmin()) + 1
    periods_s, cost_j = periods_s[:end], cost_j[:end]
    corners = lower_hull(periods_s.tolist(), cost_j.tolist())
    excess_j = np.round(cost_j - np.interp(periods_s, periods_s[corners], cost_j[corners]), 9)
    return np.sort(periods_s[np.argsort(excess_j, kind="stable")[:_MOST_PERIODS]])
