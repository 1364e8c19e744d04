"""Means over windows, with an error bar that says what it says.

The 95 % interval is Student's: mean +- t(n - 1) x std / sqrt(n), with the standard deviation between windows. It
is never narrower than one standard error of the reading itself (ticks), for few windows may agree by luck; energies
get what a board drifts by over minutes on top, for windows that lie closer together cannot show it. The standard
deviation is then the one that gives this interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from energyopt.schemas.intervals import half_width, student_quantile

NORMAL_QUANTILE = 1.959964
"""Of the two-sided 95 % interval."""

DRIFT = 0.0015
"""Standard deviation of a power, relative, that all windows of a run shorter than some minutes have in common.

A board's mean power wanders by tenths of a percent over minutes. Without this share the intervals of short sweeps
with long windows hold the true energy in fewer than 90 % of cases (tests/profiler/measurement/test_coverage.py).
"""


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
    """One window's result and its standard errors.

    error: what the reading itself puts on it.
    drift: what it has in common with all other windows of the run, see `DRIFT`.
    """

    value: float
    error: float = 0.0
    drift: float = 0.0


def estimate(readings: Mapping[int, Reading]) -> Estimate:
    """The mean of one thing's readings, which are given by round."""
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
    quantile = student_quantile(len(rounds) - 1)
    spread = max(stdev(sums), _resolved(parts) / quantile)
    drift = math.fsum(count * fmean(one.drift for one in readings.values()) for count, readings in parts)
    shared = NORMAL_QUANTILE * drift * math.sqrt(len(rounds)) / quantile
    return Estimate(mean=mean, std=math.hypot(spread, shared), samples=len(rounds))


def _resolved(parts: Sequence[tuple[int, Mapping[int, Reading]]]) -> float:
    """Standard error that the readings themselves put on one round's sum."""
    return math.sqrt(
        math.fsum(count**2 * fmean(one.error**2 for one in readings.values()) for count, readings in parts)
    )
