"""How new plans are made from old ones: cuts that join two plans, windows that transplant, and random hurry.

All randomness of the search comes from here, from a fixed seed, so that the same problem gives the same plans.

Legend: n operations in the sweeper's order, W plans (columns).
"""

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.price_tables import FACTORS, GENTLE
from energyopt.schemas.ops import OpKind

_MOST_SLANT = 4  # steps of the cut's slant over the stages and between the kinds, either way
_HURRY = 5  # factors from here on make an operation hurry


class Variation:
    """Random choices among the operations of one problem, by microbatch, stage and kind."""

    def __init__(self, problem: Problem, order: Ints) -> None:
        schedule = problem.schedule
        ops = schedule.ops
        places = [schedule.virtual_stages[op.stage][op.chunk] for op in ops]
        self._random = np.random.default_rng(0)
        self._microbatches = schedule.microbatches
        self._stages = max(places) + 1
        self._microbatch = np.array([op.microbatch for op in ops], dtype=np.float64)[order, None]
        self._place = np.array(places, dtype=np.float64)[order, None]
        self._slope = self._place / max(self._stages - 1, 1) - 0.5
        self._backward = np.array([op.kind is not OpKind.FORWARD for op in ops], dtype=np.float64)[
            order, None
        ]

    def gentle(self, count: int) -> Ints:
        """Random price factors for rounding, [W]."""
        return self._random.integers(0, GENTLE, count)

    def steps(self, most: int, count: int) -> Ints:
        """Random whole numbers from 1 to `most`, [W]."""
        return self._random.integers(1, most + 1, count)

    def ranks(self, most: int, count: int) -> Ints:
        """Random whole numbers from 0 to `most` - 1, [W]."""
        return self._random.integers(0, most, count)

    def uniform(self, low: Floats, high: Floats) -> Floats:
        """Random numbers between low [W] and high [W]."""
        return self._random.uniform(low, high)

    def happens(self, probability: float, count: int) -> Flags:
        """Random truth, [W]."""
        return np.asarray(self._random.random(count) < probability)

    def cut(self, share: Floats, width: int) -> Flags:
        """Which operations come from the second of two plans, [n, W]: about `share` [W] of the microbatches.

        The cut may slant over the stages and lie apart for forward and backward. Within each group of `width`
        columns cuts scatter more and more around the exact share.
        """
        columns, random = len(share), self._random
        second_first = random.integers(0, 2, columns) == 1
        scatter = random.normal(0.0, 1.0, columns) * np.tile(np.linspace(0.3, 4.0, width), columns // width)
        cut = np.where(second_first, share, 1 - share) * self._microbatches + scatter
        slant = random.integers(-_MOST_SLANT, _MOST_SLANT + 1, (2, columns))
        position = self._microbatch + self._slope * (2.5 * slant[0]) + self._backward * (0.5 * slant[1])
        return np.asarray((position < cut) == second_first)

    def transplant(self, columns: int) -> Flags:
        """Which operations come from the second of two plans, [n, W]: a slanted stretch, or nothing at all."""
        random = self._random
        stages, kinds = random.uniform(-7, 7, columns), random.uniform(-3, 3, columns)
        position = self._microbatch + self._slope * stages + self._backward * kinds
        begin = random.uniform(-2, self._microbatches + 2, columns)
        end = begin + random.uniform(1, max(self._microbatches / 2, 2), columns)
        happens = random.random(columns) < 0.5
        return np.asarray((position >= begin) & (position < end) & happens)

    def hurry(self, columns: int) -> Ints:
        """Price factors [n, W]: within a window some operations hurry, elsewhere one mild factor a plan."""
        random, n = self._random, len(self._microbatch)
        inside = np.where(random.random(columns) < 0.5, self._stretch(columns), self._block(columns))
        share = random.uniform(0.02, 0.5, columns).astype(np.float32)
        hurried = inside & (random.random((n, columns), dtype=np.float32) < share)
        factors = random.integers(_HURRY, len(FACTORS), (n, columns), dtype=np.int8)
        return np.where(hurried, factors, random.integers(0, _HURRY, columns, dtype=np.int8))

    def _stretch(self, columns: int) -> Flags:
        """A stretch of the topological order, all stages."""
        random, n = self._random, len(self._microbatch)
        centre, reach = random.uniform(0, n, columns), random.uniform(0.005, 0.15, columns) * n + 2
        return np.asarray(np.abs(np.arange(n)[:, None] - centre) <= reach)

    def _block(self, columns: int) -> Flags:
        """A few microbatches on a few neighbouring stages."""
        random = self._random
        stage, stages = random.integers(0, self._stages, columns), random.integers(0, 4, columns)
        centre, reach = random.uniform(-1, self._microbatches, columns), random.uniform(0.5, 3, columns)
        near = np.abs(self._microbatch - centre) <= reach
        return np.asarray(near & (np.abs(self._place - stage) <= stages))
