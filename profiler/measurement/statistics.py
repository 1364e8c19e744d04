"""Means over windows, with an error bar that says what it says.

The 95 % interval is Student's: mean +- t(n - 1) x std / sqrt(n), with the standard deviation between windows. Where
the reading itself resolves less than that (ticks), its known error decides instead, with the normal distribution's
factor: the standard deviation is then the one that gives this interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from energyopt.schemas.intervals import half_width, student_quantile

NORMAL_QUANTILE = 1.959964
"""Of the two-sided 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, the standard deviation of one window, and how many windows stand behind it.

    std: None where a single window gives no spread.
    """

    mean: float
    std: float | None
    samples: int

    @property
    def half_width(self) -> float | None:
        """Half the 95 % interval of the mean; None where fewer than two windows stand behind it."""
        return half_width(self.std, self.samples)


@dataclass(frozen=True, slots=True)
class Reading:
    """One window's result, and the standard error that the reading itself puts on it."""

    value: float
    error: float = 0.0


def estimate(readings: Mapping[int, Reading]) -> Estimate:
    """The mean of one kernel's readings, which are given by round."""
    return total([(1, readings)])


def total(parts: Sequence[tuple[int, Mapping[int, Reading]]]) -> Estimate:
    """The sum of parts, each taken `count` times, from their readings by round; each part has at least one.

    The spread is that of the sum from round to round, so that what all parts of a round share (a board that drifts)
    shows in it; errors of independent parts cancel by themselves. Where a part lacks a round, that round gives no
    sum; fewer than two whole rounds give no spread.
    """
    mean = math.fsum(count * fmean(one.value for one in readings.values()) for count, readings in parts)
    rounds = sorted(set.intersection(*(set(readings) for _, readings in parts)))
    if len(rounds) < 2:
        return Estimate(mean=mean, std=None, samples=1)
    sums = [math.fsum(count * readings[one].value for count, readings in parts) for one in rounds]
    least = _resolved(parts) * NORMAL_QUANTILE / student_quantile(len(rounds) - 1)
    return Estimate(mean=mean, std=max(stdev(sums), least), samples=len(rounds))


def _resolved(parts: Sequence[tuple[int, Mapping[int, Reading]]]) -> float:
    """Standard error that the readings themselves put on one round's sum."""
    return math.sqrt(
        math.fsum(count**2 * fmean(one.error**2 for one in readings.values()) for count, readings in parts)
    )
