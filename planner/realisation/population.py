"""Improving the plans of chosen windows: populations that breed, a few windows a round.

Each round takes the windows whose gap is largest and has not stood still for long. Their children are joined from
two parents (of the same window, or of a neighbouring one), hurried in places and repaired by sweeps; the best
different ones survive.

Legend: n operations in the sweeper's order, D windows, Q members kept for each, W children (columns).
"""

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.realisation.pool import Pool, Workshop
from energyopt.planner.realisation.rounding import Rounded
from energyopt.planner.realisation.windows import Windows

_PATIENCE = 0.85  # what a round without improvement leaves of a window's claim to the next one
_SAME_GAP = 1e-12  # difference below which two plans of a window count as one
_DRIFT = 0.1  # share of its window by which a child's deadline may differ from its parent's makespan


class Population:
    """Q plans for each of D windows, best first."""

    def __init__(self, workshop: Workshop, windows: Windows, pool: Pool, members: int) -> None:
        """Begin with the pool's best plans in each window, repeated where there are too few."""
        self._workshop = workshop
        self._windows = windows
        chosen = np.stack(
            [_best_inside(workshop, windows, index, pool, members) for index in range(len(windows.high_s))]
        )
        self._choices = pool.choices[:, chosen]  # [n, D, Q]
        self._effective_j = pool.effective_j[chosen]  # [D, Q]
        self._makespan_s = pool.makespan_s[chosen]  # [D, Q]
        window = np.repeat(np.arange(len(chosen)), members)
        gap = workshop.judge.gap(windows, window, self._effective_j.ravel(), self._makespan_s.ravel())
        self._gap: Floats = gap.reshape(chosen.shape)  # [D, Q]
        self._claim = np.ones(len(chosen))

    def best(self) -> Pool:
        """The best plan of each window."""
        return Pool(
            windows=self._windows,
            choices=self._choices[:, :, 0],
            effective_j=self._effective_j[:, 0],
            makespan_s=self._makespan_s[:, 0],
            gap=self._gap[:, 0],
        )

    def breed(self, active: int, width: int) -> None:
        """One round for the `active` windows with the largest claim (gap x patience), `width` children each."""
        chosen = np.sort(np.argsort(-self._gap[:, 0] * self._claim, kind="stable")[:active])
        window = np.repeat(chosen, width)
        children = self._children(window)
        gap = self._workshop.judge.gap(self._windows, window, children.effective_j, children.makespan_s)
        before = self._gap[chosen, 0]
        for number, target in enumerate(chosen):
            self._survive(target, slice(number * width, (number + 1) * width), children, gap)
        improved = self._gap[chosen, 0] < before
        self._claim[chosen] = np.where(improved, 1.0, self._claim[chosen] * _PATIENCE)

    def _children(self, window: Ints) -> Rounded:
        variation, count = self._workshop.variation, len(window)
        members = self._choices.shape[2]
        mother, father = variation.ranks(members, count), variation.ranks(members, count)
        neighbour = np.clip(window + variation.ranks(3, count) - 1, 0, len(self._gap) - 1)
        plans = np.where(
            variation.transplant(count),
            self._choices[:, neighbour, father],
            self._choices[:, window, mother],
        )
        return self._workshop.rounder.repair(
            plans,
            self._deadline_s(window, self._makespan_s[window, mother]),
            variation.hurry(count),
            variation.gentle(count),
            ~self._windows.fixed[window],
        )

    def _deadline_s(self, window: Ints, makespan_s: Floats) -> Floats:
        """Near the mother's makespan where the window leaves the choice."""
        variation, windows = self._workshop.variation, self._windows
        reach_s = _DRIFT * (windows.high_s - windows.low_s)[window]
        drifting_s = makespan_s + variation.uniform(-reach_s, reach_s)
        wished_s = np.where(variation.happens(0.5, len(window)), drifting_s, makespan_s * (1 + 1e-9))
        wished_s = np.clip(wished_s, windows.low_s[window], windows.high_s[window])
        return np.where(windows.fixed[window], windows.high_s[window], wished_s)

    def _survive(self, target: int, columns: slice, children: Rounded, child_gap: Floats) -> None:
        """Keep the best of a window's members and children, different ones before copies."""
        gap = np.concatenate((self._gap[target], child_gap[columns]))
        order = np.argsort(gap, kind="stable")
        ranked = gap[order]
        with np.errstate(invalid="ignore"):
            copy = np.concatenate(([False], np.diff(ranked) <= _SAME_GAP))
        kept = np.concatenate((order[~copy], order[copy]))[: self._gap.shape[1]]
        plans = np.concatenate((self._choices[:, target], children.choices[:, columns]), axis=1)
        self._choices[:, target] = plans[:, kept]
        self._effective_j[target] = np.append(self._effective_j[target], children.effective_j[columns])[kept]
        self._makespan_s[target] = np.append(self._makespan_s[target], children.makespan_s[columns])[kept]
        self._gap[target] = gap[kept]


def _best_inside(workshop: Workshop, windows: Windows, index: int, pool: Pool, members: int) -> Ints:
    """Indices of the pool's plans in one window, best first."""
    window = np.full(len(pool.gap), index)
    gap = workshop.judge.gap(windows, window, pool.effective_j, pool.makespan_s)
    order = np.argsort(gap, kind="stable")
    found = max(int(np.isfinite(gap).sum()), 1)
    return order[np.arange(members) % min(found, members)]
