"""How new plans are made from old ones: cuts that join a faster and a slower plan, and random hurry.

Legend: n operations in the sweeper's order, W columns of a population.
"""

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.sweeps import FACTORS, GENTLE
from energyopt.schemas.ops import OpKind

_MOST_SLANT = 4  # microbatches by which the cut may move from the first stage to the last, or between kinds


class Cutter:
    """Splits the operations of an iteration in two at a microbatch, on a line that may slant over the stages."""

    def __init__(self, problem: Problem, order: Ints) -> None:
        schedule = problem.schedule
        ops = schedule.ops
        last = max(max(chunks) for chunks in schedule.virtual_stages) or 1
        place = [schedule.virtual_stages[op.stage][op.chunk] / last for op in ops]
        self._microbatches = schedule.microbatches
        self._microbatch = np.array([op.microbatch for op in ops], dtype=np.float64)[order]
        self._place = np.array(place)[order] - 0.5
        self._backward = np.array([op.kind is not OpKind.FORWARD for op in ops], dtype=np.float64)[order]

    def cut(self, share: Floats, width: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """Which operations come from the second of two plans, [n, W]; about `share` [W] of the microbatches.

        Within each group of `width` columns the cuts scatter more and more around the exact share.
        """
        columns = len(share)
        second_first = random.integers(0, 2, columns) == 1
        scatter = random.normal(0.0, 1.0, columns) * np.tile(np.linspace(0.3, 4.0, width), columns // width)
        cut = np.where(second_first, share, 1 - share) * self._microbatches + scatter
        slant = random.integers(-_MOST_SLANT, _MOST_SLANT + 1, (2, columns))
        position = self._microbatch[:, None] + self._place[:, None] * (2.5 * slant[0])
        position += self._backward[:, None] * (0.5 * slant[1])
        return np.asarray((position < cut) == second_first)


def disturbances(shape: tuple[int, ...], random: np.random.Generator) -> Ints:
    """Random price factors [n, W]: a stretch of each plan in which some operations hurry, mild ones elsewhere."""
    n, columns = shape
    position = np.arange(n)[:, None]
    centre, reach = random.uniform(0, n, columns), random.uniform(0.005, 0.15, columns) * n + 2
    inside = np.abs(position - centre) <= reach
    hurried = inside & (random.random((n, columns)) < random.uniform(0.02, 0.5, columns))
    hurry = random.integers(GENTLE - 2, len(FACTORS), (n, columns))
    return np.where(hurried, hurry, random.integers(0, GENTLE - 2, columns))
