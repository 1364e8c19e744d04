"""Means of correlated iterations and ratios of such means, with 95 % intervals.

Consecutive iterations resemble each other (temperature, data, neighbours), so n of them tell less than n
independent ones. The lag-1 autocorrelation r of the run, corrected for its small-sample bias of -(1 + 3 r) / n
(Kendall 1954, Marriott and Pope 1954), gives the effective sample size n (1 - r) / (1 + r) of a first-order
autoregressive series; a negative r is taken as 0, so that the interval is never narrower than that of independent
iterations. With fewer than eight iterations r cannot be told, and they are taken as independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.schemas.intervals import student_quantile

FEWEST = 3
"""Iterations that an interval needs."""
FEWEST_FOR_CORRELATION = 8
"""Iterations from which on their correlation is told; fewer are taken as independent."""
_MOST_CORRELATION = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over iterations, in the unit of its values.

    effective: how many independent iterations they are worth; std: from iteration to iteration. Both, and
    `half_width`, half the 95 % interval of the mean, are None where there are fewer than `FEWEST` iterations.
    """

    mean: float
    iterations: int
    std: float | None = None
    effective: float | None = None
    half_width: float | None = None

    @property
    def relative_half_width(self) -> float | None:
        """`half_width` as a share of the mean; None where there is none to relate to."""
        return None if self.half_width is None or not self.mean else self.half_width / abs(self.mean)

    @property
    def relative_std(self) -> float | None:
        """`std` as a share of the mean; None where there is none to relate to."""
        return None if self.std is None or not self.mean else self.std / abs(self.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its 95 % interval; `low` and `high` are None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


def estimate(values: Floats | Sequence[float]) -> Estimate | None:
    """The mean of a series in the order of time, without what is NaN (not read); None where nothing is left."""
    series = np.asarray(values, dtype=np.float64)
    series = series[np.isfinite(series)]
    n = len(series)
    if n == 0:
        return None
    mean = float(series.mean())
    if n < FEWEST:
        return Estimate(mean=mean, iterations=n)
    std = float(series.std(ddof=1))
    correlation = _correlation(series)
    effective = max(n * (1 - correlation) / (1 + correlation), 2.0)
    half = student_quantile(max(round(effective) - 1, 1)) * std / math.sqrt(effective)
    return Estimate(mean=mean, iterations=n, std=std, effective=effective, half_width=half)


def deviation(measured: Estimate, predicted: float) -> Interval:
    """The relative deviation, measured / predicted - 1."""
    value = measured.mean / predicted - 1
    if measured.half_width is None:
        return Interval(value=value)
    half = measured.half_width / abs(predicted)
    return Interval(value=value, low=value - half, high=value + half)


def ratio(new: Estimate, old: Estimate) -> Interval:
    """The ratio of two independent runs' means, by the delta method.

    The relative variances of both means add up; the degrees of freedom are Welch's (1947), with effective sample
    sizes in place of counts.
    """
    value = new.mean / old.mean
    spread = [_relative_variance(one) for one in (new, old)]
    if spread[0] is None or spread[1] is None:
        return Interval(value=value)
    total = sum(variance for variance, _ in (spread[0], spread[1]))
    weights = sum(variance**2 / max(effective - 1, 1.0) for variance, effective in (spread[0], spread[1]))
    degrees = max(math.floor(total**2 / weights), 1) if weights else 1
    half = student_quantile(degrees) * abs(value) * math.sqrt(total)
    return Interval(value=value, low=value - half, high=value + half)


def _relative_variance(one: Estimate) -> tuple[float, float] | None:
    """Of the mean, relative to the mean's square; and the effective sample size."""
    if one.relative_std is None or one.effective is None:
        return None
    return one.relative_std**2 / one.effective, one.effective


def _correlation(series: Floats) -> float:
    """The lag-1 autocorrelation, corrected for bias; 0 where it cannot be told or is negative."""
    n = len(series)
    centred = series - series.mean()
    total = float(centred @ centred)
    if n < FEWEST_FOR_CORRELATION or total == 0:
        return 0.0
    found = float(centred[1:] @ centred[:-1]) / total
    found += (1 + 3 * found) / n
    return min(max(found, 0.0), _MOST_CORRELATION)
