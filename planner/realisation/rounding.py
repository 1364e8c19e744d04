"""Plans of measured options from time windows: sweeps with the prices of the nearest relaxed solution.

Legend: n operations in the sweeper's order, A anchors (relaxed solutions), W plans (columns).
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.curve import Curve
from energyopt.planner.formulations.interface import Relaxed
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.price_tables import price_tables
from energyopt.planner.realisation.shortening import shortened
from energyopt.planner.realisation.sweeps import Sweeper

BEYOND = (
    2e-9  # relative distance past a plan's makespan at which sweeps find the plan: more than they keep off
)
_ROOM = 2**24  # operations times plans that are swept at once
_INSIDE = 1e-9  # relative distance that some sweeps keep from a deadline, so that rounding cannot cross it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounded:
    """Plans: choices [n, W], effective energy [W] and makespan [W].

    The energy of a plan that misses its deadline is infinite, unless the rounder's plans may overrun.
    """

    choices: Choices
    effective_j: Floats
    makespan_s: Floats


class Rounder:
    """Turns relaxed solutions and disturbed plans into plans that meet their deadlines, or nearly so.

    overruns: plans may be late, since operations of a block cannot keep to their own windows; then the last sweep
    takes no time that is not worth it either, for what one operation takes its block takes too.

    anchor_s [A] are the relaxed solutions' deadlines, relaxed_s [n, A] their durations.
    """

    def __init__(
        self,
        problem: Problem,
        curve: Curve,
        group_of: Ints | None = None,
        block_of: Ints | None = None,
        kind_of: Ints | None = None,
    ) -> None:
        """Lay out the curve's solutions, which may be those of a problem with more options than this one.

        group_of: operations that the curve's solutions give the same prices, [n]; each its own if not given.
        block_of, kind_of: see `Sweeper`.
        """
        self.sweeper = Sweeper(problem, block_of, kind_of)
        self.overruns = block_of is not None
        order = self.sweeper.order
        self.anchor_s = np.array([point.deadline_s for point in curve.points])
        self.relaxed_s = np.stack([point.relaxed.duration_s[order] for point in curve.points], axis=1)
        self.relaxed_s = self.sweeper.alike_s(self.relaxed_s)
        if group_of is not None or block_of is not None:
            fastest_s = self.sweeper.fastest_s
            self.relaxed_s = shortened(self.sweeper, self.relaxed_s, fastest_s, self.anchor_s)
        prices = np.stack([_prices(problem, point.relaxed) for point in curve.points], axis=1)
        groups = None if group_of is None else group_of[order]
        self._tables = price_tables(
            problem, self.sweeper.front_of, prices[order], groups, self.sweeper.shared
        )

    def round_relaxed(
        self, deadline_s: Floats, spare_s: Floats, first: Ints, second: Ints, may_shrink: Flags
    ) -> "Rounded":
        """Plans for deadlines [W] from the relaxed durations for `spare_s` [W] less time.

        The spare time goes around with the work: an operation may overrun its relaxed duration by that much as
        long as others of its stage make up for it, so that options above and below alternate.
        """
        shortened_s = np.maximum(deadline_s - spare_s, self.anchor_s[0])
        latest_s = self.sweeper.latest_finish_s(
            self._interpolated_s(shortened_s), _limit_s(deadline_s, may_shrink)
        )
        return self._settle(latest_s, deadline_s, (first, second), may_shrink)

    def repair(
        self, plans: Choices, deadline_s: Floats, first: Ints, second: Ints, may_shrink: Flags
    ) -> "Rounded":
        """Plans [n, W] made to meet their deadlines [W] and to use the time that they leave.

        first and second are the price factors of the first two sweeps, [W] or [n, W]; the last one uses factor 0,
        or the first again where plans may overrun.
        may_shrink [W]: a plan that the first sweep finds to end early keeps that end as its deadline.
        """
        latest_s = self.sweeper.latest_finish_s(self.sweeper.time_s(plans), _limit_s(deadline_s, may_shrink))
        return self._settle(latest_s, deadline_s, (first, second), may_shrink)

    def rated(self, plans: Choices) -> "Rounded":
        """Plans [n, W] as they are."""
        return Rounded(
            choices=plans,
            effective_j=self.sweeper.effective_j(plans),
            makespan_s=self.sweeper.makespan_s(self.sweeper.time_s(plans)),
        )

    def _settle(
        self, latest_s: Floats, deadline_s: Floats, factors: tuple[Ints, Ints], may_shrink: Flags
    ) -> "Rounded":
        """Sweep forward, back and forward again; wide populations in slices."""
        width = max(4, _ROOM // len(latest_s) // 4 * 4)  # `_limit_s` looks at places in fours
        if len(deadline_s) <= width:
            return self._swept(latest_s, deadline_s, factors, may_shrink)
        parts = [
            self._swept(
                latest_s[:, columns],
                deadline_s[columns],
                (factors[0][..., columns], factors[1][..., columns]),
                may_shrink[columns],
            )
            for columns in (slice(first, first + width) for first in range(0, len(deadline_s), width))
        ]
        return Rounded(
            choices=np.concatenate([part.choices for part in parts], axis=1),
            effective_j=np.concatenate([part.effective_j for part in parts]),
            makespan_s=np.concatenate([part.makespan_s for part in parts]),
        )

    def _swept(
        self, latest_s: Floats, deadline_s: Floats, factors: tuple[Ints, Ints], may_shrink: Flags
    ) -> "Rounded":
        sweeper, tables = self.sweeper, self._tables
        anchor, limit_s = self._nearest_anchor(deadline_s), _limit_s(deadline_s, may_shrink)
        _, start_s, finish_s = sweeper.forward(latest_s, tables, tables.rows(anchor, factors[0]))
        limit_s = np.where(may_shrink, np.minimum(limit_s, finish_s.max(axis=0)), limit_s)
        _, _, latest_s = sweeper.backward(start_s, limit_s, tables, tables.rows(anchor, factors[1]))
        last = tables.rows(anchor, factors[0] if self.overruns else np.zeros_like(anchor))
        choices, _, finish_s = sweeper.forward(latest_s, tables, last)
        makespan_s = finish_s.max(axis=0)
        effective_j = sweeper.effective_j(choices)
        if not self.overruns:
            effective_j = np.where(makespan_s > deadline_s, np.inf, effective_j)
        return Rounded(choices=choices, effective_j=effective_j, makespan_s=makespan_s)

    def _interpolated_s(self, deadline_s: Floats) -> Floats:
        right = np.minimum(np.searchsorted(self.anchor_s, deadline_s), len(self.anchor_s) - 1)
        left = np.maximum(right - 1, 0)
        share: Floats = share_between(self.anchor_s[left], self.anchor_s[right], deadline_s)
        share = np.minimum(share, 1.0)
        return self.relaxed_s[:, left] * (1 - share) + self.relaxed_s[:, right] * share

    def _nearest_anchor(self, deadline_s: Floats) -> Ints:
        right = np.minimum(np.searchsorted(self.anchor_s, deadline_s), len(self.anchor_s) - 1)
        left = np.maximum(right - 1, 0)
        to_left_s, to_right_s = (np.abs(self.anchor_s[side] - deadline_s) for side in (left, right))
        return np.where(to_left_s < to_right_s * (1 - _INSIDE), left, right)  # halfway counts as right


def share_between(left: Floats, right: Floats, value: Floats) -> Floats:
    """How far `value` lies on the way from left to right, 0 where they are the same."""
    width = right - left
    return np.where(width > 0, (value - left) / np.where(width > 0, width, 1.0), 0.0)


def _limit_s(deadline_s: Floats, may_shrink: Flags) -> Floats:
    """What sweeps aim at, [W]: just inside the deadline; where that is fixed, for every other pair right at it.

    A plan that ends exactly at a fixed deadline is found by the latter; where rounding takes them past it, the
    former hold.
    """
    keeps_off = may_shrink | (np.arange(len(deadline_s)) // 2 % 2 == 1)
    return np.asarray(deadline_s * (1 - _INSIDE * keeps_off))


def _prices(problem: Problem, relaxed: Relaxed) -> Floats:
    """What a second of each operation is worth, in W, [n]."""
    leaving = np.bincount(problem.graph.tail, relaxed.edge_flow_w, problem.n_ops)
    return np.asarray(leaving + relaxed.sink_flow_w)
