"""Which option is best at a price of time, tabulated for all operations.

Legend: n operations in the sweeper's order, K options of the longest front, A anchors (relaxed solutions that give
prices), R price factors, T tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.shared_choices import SharedChoices

FACTORS = np.array([0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0, 1.2, 1.6, 3.0, 1e6])  # the last ones only disturb
GENTLE = 7  # the factors before this index are for rounding
_ROUNDING = 1e-12  # relative: what costs that are equal may differ by once they are computed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriceTables:
    """For each operation, anchor and factor: the best option among the fastest k ones, for k = 0..K."""

    best: Choices  # [T, A * R * (K + 1)]
    table_of: Ints  # [n]
    options: int  # K

    def rows(self, anchor: Ints, factor: Ints) -> Ints:
        """Where the rows of given anchors and factors begin; the arguments broadcast."""
        return np.asarray((anchor * len(FACTORS) + factor) * (self.options + 1))


def price_tables(
    problem: Problem,
    front_of: Ints,
    price_w: Floats,
    group_of: Ints | None = None,
    shared: SharedChoices | None = None,
) -> PriceTables:
    """Tabulate the best options for prices [n, A] of operations with fronts [n].

    group_of: operations of one group [n] have the same prices and fronts, so that they share a table; each has its
        own if not given. shared: blocks, for which the sum of all operations decides.
    """
    group_of = np.arange(len(price_w)) if group_of is None else group_of
    if shared is None:
        _, first, table_of = np.unique(group_of, return_index=True, return_inverse=True)
        parts = _by_front(front_of, first)
    else:
        first, table_of = shared.alike(group_of)
        parts = ((shared.members(first[own]), own) for own in shared.of_kinds(first))
    options = max(len(front.time_s) for front in problem.fronts)
    best = np.zeros((len(first), price_w.shape[1], len(FACTORS), options + 1), dtype=np.int16)
    for members, own in parts:
        cost_j = _cost_j(problem, front_of, price_w, members)
        count = cost_j.shape[-1]
        tie_j = _ROUNDING * np.abs(cost_j).max(axis=-1, keepdims=True)
        is_best = cost_j <= np.minimum.accumulate(cost_j, axis=-1) + tie_j
        ranks = np.where(is_best, np.arange(count, dtype=np.int16), np.int16(0))
        best[own, :, :, 1 : count + 1] = np.maximum.accumulate(ranks, axis=-1)
    return PriceTables(best=best.reshape(len(first), -1), table_of=table_of.ravel(), options=options)


def _by_front(front_of: Ints, first: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Operations [1, T'] that have one front, and their positions among those given."""
    for front in np.unique(front_of[first]):
        own = np.flatnonzero(front_of[first] == front)
        yield first[own][None], own


def _cost_j(problem: Problem, front_of: Ints, price_w: Floats, members: Ints) -> Floats:
    """What each option costs at each anchor and factor, summed over members [operations, T']; [T', A, R, K]."""
    total_j: Floats | None = None
    for places in members:
        front = problem.fronts[front_of[places[0]]]
        priced_j = FACTORS[:, None] * price_w[places][:, :, None, None] * front.time_s
        cost_j = front.effective_j + priced_j
        total_j = cost_j if total_j is None else total_j + cost_j
    assert total_j is not None
    return total_j
