"""Plans for many windows of iteration time at once, one each, that help each other.

Where the relaxed solution runs a stage and kind between two options, the best plans run some microbatches at one
and the rest at the other. Such a plan is made from two plans of the pool, one faster and one slower, that both need
little mixing, cut at a microbatch.

Legend: n operations in the sweeper's order, D windows, W plans tried (columns).
"""

from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.realisation.rounding import BEYOND, Rounded, Rounder, share_between
from energyopt.planner.realisation.variation import Variation
from energyopt.planner.realisation.windows import Judge, Windows

_SPARE_STEPS = (0.0, 1.0, 2.0)  # spare time, in typical distances between options
_ROUNDING_FACTORS = (0, 5, 6)
_OVERRUN_FACTORS = (5, 6, 7, 8, 9)  # of plans that would be late without hurry
_SEED_FACTOR = 5
_MIXING_ROUNDS = 3
_NEAR = 8  # places in the pool that partners of a random mixture may be apart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """The best plan found for each window; its gap is infinite where none was found."""

    windows: Windows
    choices: Choices  # [n, D]
    effective_j: Floats  # [D]
    makespan_s: Floats  # [D]
    gap: Floats  # [D]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workshop:
    """What turns plans into better ones."""

    rounder: Rounder
    variation: Variation
    judge: Judge


def fill_pool(workshop: Workshop, windows: Windows, seeds: tuple[Choices, Floats], width: int) -> Pool:
    """Round the relaxed durations for each window, add seeds, then mix the plans, `width` ways for each window.

    seeds: plans [n, W] and makespans [W] that they are meant for.
    """
    pool = _seeded(workshop, _rounded(workshop, windows), seeds)
    if not np.isfinite(pool.gap).any():
        return pool
    for number in range(_MIXING_ROUNDS):
        partners = _corners(pool, workshop) if number % 2 == 0 else _neighbours(pool, workshop.variation)
        pool = _mixed(workshop, pool, partners, width)
    return pool


def _rounded(workshop: Workshop, windows: Windows) -> Pool:
    count = len(windows.high_s)
    chosen = _OVERRUN_FACTORS if workshop.rounder.overruns else _ROUNDING_FACTORS
    ways = np.array([(spare, factor) for spare in _SPARE_STEPS for factor in chosen])
    window = np.repeat(np.arange(count), len(ways))
    spare_s = np.tile(ways[:, 0], count) * workshop.rounder.sweeper.step_s
    factors = np.tile(ways[:, 1].astype(np.int64), count)
    rounded = workshop.rounder.round_relaxed(
        windows.high_s[window], spare_s, factors, factors, ~windows.fixed[window]
    )
    empty = np.full(count, np.inf)
    none = np.zeros((len(rounded.choices), count), dtype=np.int16)
    pool = Pool(windows=windows, choices=none, effective_j=empty, makespan_s=windows.high_s, gap=empty)
    return _taken_in(workshop, pool, window, rounded)


def _seeded(workshop: Workshop, pool: Pool, seeds: tuple[Choices, Floats]) -> Pool:
    """The pool with seeds, each repaired for the time that it takes itself and for the one it was meant for.

    Where plans may overrun, each as it is too, for to repair it may make it late.
    """
    plans, meant_s = seeds
    if not plans.shape[1]:
        return pool
    as_they_are = workshop.rounder.rated(plans)
    own_s = as_they_are.makespan_s
    if workshop.rounder.overruns:
        pool = _adopted(workshop.judge, pool, as_they_are)
    factors = np.full(plans.shape[1], _SEED_FACTOR)
    keep_deadline = np.zeros(plans.shape[1], dtype=np.bool_)
    for deadline_s in (own_s * (1 + BEYOND), meant_s):
        rounded = workshop.rounder.repair(plans, deadline_s, factors, factors, keep_deadline)
        pool = _adopted(workshop.judge, pool, rounded)
    return pool


def _adopted(judge: Judge, pool: Pool, rounded: Rounded) -> Pool:
    """The pool with each new plan in the window that it falls into, where it is the best there."""
    count = len(pool.gap)
    window = np.minimum(np.searchsorted(pool.windows.high_s, rounded.makespan_s), count - 1)
    gap = judge.gap(pool.windows, window, rounded.effective_j, rounded.makespan_s)
    order = np.lexsort((gap, window))
    first = order[np.concatenate(([True], np.diff(window[order]) > 0))]
    first = first[gap[first] < pool.gap[window[first]]]
    choices, effective_j = pool.choices.copy(), pool.effective_j.copy()
    makespan_s, best_gap = pool.makespan_s.copy(), pool.gap.copy()
    at = window[first]
    choices[:, at], effective_j[at] = rounded.choices[:, first], rounded.effective_j[first]
    makespan_s[at], best_gap[at] = rounded.makespan_s[first], gap[first]
    return replace(pool, choices=choices, effective_j=effective_j, makespan_s=makespan_s, gap=best_gap)


def _mixed(workshop: Workshop, pool: Pool, partners: tuple[Ints, Ints], width: int) -> Pool:
    faster, slower = (np.repeat(partner, width) for partner in partners)
    window = np.repeat(np.arange(len(pool.gap)), width)
    deadline_s = pool.windows.high_s[window]
    share = share_between(pool.makespan_s[faster], pool.makespan_s[slower], deadline_s)
    takes_slower = workshop.variation.cut(share, width)
    plans = np.where(takes_slower, pool.choices[:, slower], pool.choices[:, faster])
    if workshop.rounder.overruns:
        plans = workshop.rounder.sweeper.agreed(plans)
        pool = _adopted(workshop.judge, pool, workshop.rounder.rated(plans))
    first, second = _mixing_factors(workshop, len(window))
    rounded = workshop.rounder.repair(plans, deadline_s, first, second, ~pool.windows.fixed[window])
    return _taken_in(workshop, pool, window, rounded)


def _mixing_factors(workshop: Workshop, count: int) -> tuple[Ints, Ints]:
    """Price factors of the first two sweeps over mixed plans, [W] each."""
    variation = workshop.variation
    if workshop.rounder.overruns:
        factors = np.array(_OVERRUN_FACTORS)
        return factors[variation.ranks(len(factors), count)], factors[variation.ranks(len(factors), count)]
    first = np.where(np.arange(count) % 2, variation.gentle(count), 0)
    return first, variation.gentle(count)


def _taken_in(workshop: Workshop, pool: Pool, window: Ints, rounded: Rounded) -> Pool:
    """The pool with new plans for its windows; those that are late count where they end."""
    pool = _improved(workshop.judge, pool, window, rounded)
    return _adopted(workshop.judge, pool, rounded) if workshop.rounder.overruns else pool


def _improved(judge: Judge, pool: Pool, window: Ints, rounded: Rounded) -> Pool:
    """The pool with the best of the new plans where they beat the old ones; equal numbers for each window."""
    gap = judge.gap(pool.windows, window, rounded.effective_j, rounded.makespan_s).reshape(len(pool.gap), -1)
    column = gap.argmin(axis=1) + np.arange(len(pool.gap)) * gap.shape[1]
    better = gap.min(axis=1) < pool.gap
    return replace(
        pool,
        choices=np.where(better, rounded.choices[:, column], pool.choices),
        effective_j=np.where(better, rounded.effective_j[column], pool.effective_j),
        makespan_s=np.where(better, rounded.makespan_s[column], pool.makespan_s),
        gap=np.minimum(gap.min(axis=1), pool.gap),
    )


def _corners(pool: Pool, workshop: Workshop) -> tuple[Ints, Ints]:
    """For each window the plans left and right of it on the pool's lower convex hull of total energy."""
    found = np.flatnonzero(np.isfinite(pool.gap))
    energy_j = workshop.judge.total_j(pool.effective_j, pool.makespan_s)[found]
    corners = found[lower_hull(pool.makespan_s[found].tolist(), energy_j.tolist())]
    target = np.arange(len(pool.gap))
    right = np.searchsorted(corners, target, side="right")
    is_corner = corners[np.maximum(right - 1, 0)] == target
    left = np.maximum(np.where(is_corner, right - 2, right - 1), 0)
    return corners[left], corners[np.minimum(right, len(corners) - 1)]


def _neighbours(pool: Pool, variation: Variation) -> tuple[Ints, Ints]:
    last = len(pool.gap) - 1
    target = np.arange(last + 1)
    down, up = variation.steps(_NEAR, last + 1), variation.steps(_NEAR, last + 1)
    return np.maximum(target - down, 0), np.minimum(target + up, last)
