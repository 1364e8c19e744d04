"""How long an operation takes as a function of its clock.

Without a profile, a curve through the measured means, weighted by how many operations stand behind each: never
slower at a higher clock, and convex in 1 / clock. Both follow from how kernels behave: each takes the longer of
its compute time, proportional to 1 / clock, and its memory time, and at a power limit a higher clock changes
nothing. Thus single operations that run unlike the rest (the first after a long wait is faster) cannot bend the
curve.

With a profile, its times times a ratio, which is a constant, or a line over clocks where the slope is significant.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.verification.prediction import option_at
from energyopt.schemas.intervals import student_quantile
from energyopt.schemas.options import Option


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """The operations of one key, by rising clock: mean time and how many there were, each as its run's weight.

    seen_mhz: mean clock seen, NaN where nothing was; throttle: the reasons' bits; both None where not known.
    """

    clock_mhz: Floats
    time_s: Floats
    ops: Floats
    seen_mhz: Floats | None = None
    throttle: Ints | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Times over clocks. `x` is 1 / clock, rising; `ratio` scales a profile's options, which `options` are."""

    x: Floats
    time_s: Floats
    options: tuple[Option, ...] = ()
    ratio: Floats | None = None

    def at(self, clock_mhz: Ints) -> Floats:
        """The time at each clock, s; beyond the measured clocks by the last ones' trend."""
        if self.options:
            return np.array([self._corrected(int(clock)) for clock in clock_mhz])
        wanted = 1.0 / np.asarray(clock_mhz, dtype=np.float64)
        found = np.interp(wanted, self.x, self.time_s)
        if len(self.x) > 1:
            slope = (self.time_s[-1] - self.time_s[-2]) / (self.x[-1] - self.x[-2])
            found = found + slope * np.maximum(wanted - self.x[-1], 0.0)
        return np.asarray(found)

    def ratio_at(self, clock_mhz: float) -> float:
        """By how much a profile's time is multiplied; within the measured clocks, the ends' beyond."""
        assert self.ratio is not None
        return float(np.interp(1.0 / clock_mhz, self.x, self.ratio))

    def _corrected(self, clock: int) -> float:
        return option_at(self.options, clock).time_s * self.ratio_at(clock)


def measured_by_clock(
    clock_mhz: Ints, time_s: Floats, weight: Floats, seen_mhz: Floats, throttle: Ints
) -> Measured:
    """Means by clock of the operations of one key, from all samples; each argument has one entry per operation."""
    clocks, index = np.unique(clock_mhz, return_inverse=True)
    ops = np.bincount(index, weights=np.asarray(weight, dtype=np.float64))
    seen = np.isfinite(seen_mhz)
    known = np.bincount(index, weights=weight * seen)
    total = np.bincount(index, weights=weight * np.where(seen, seen_mhz, 0.0))
    bits = np.zeros(len(clocks), dtype=np.int64)
    np.bitwise_or.at(bits, index, throttle)
    return Measured(
        clock_mhz=clocks.astype(np.float64),
        time_s=np.bincount(index, weights=weight * time_s) / ops,
        ops=np.asarray(ops, dtype=np.float64),
        seen_mhz=np.divide(total, known, out=np.full(len(clocks), np.nan), where=known > 0),
        throttle=bits,
    )


def fit_curve(measured: Measured) -> Curve:
    """The convex curve, by non-negative least squares over hinges at the measured clocks."""
    order = np.argsort(-measured.clock_mhz)
    x, time_s, weight = 1.0 / measured.clock_mhz[order], measured.time_s[order], np.sqrt(measured.ops[order])
    unit = x / x[-1]  # of order one, as the constant is
    hinges = np.column_stack([np.ones(len(x)), np.maximum(unit[:, None] - unit[None, :-1], 0.0)])
    found, _ = nnls(hinges * weight[:, None], time_s * weight, maxiter=50 * len(x))
    return Curve(x=x, time_s=hinges @ found)


def fit_ratio(measured: Measured, options: tuple[Option, ...]) -> Curve:
    """The ratio of measured times to a profile's."""
    profiled = np.array([option_at(options, int(clock)).time_s for clock in measured.clock_mhz])
    ratio, weight = measured.time_s / profiled, measured.ops
    mean = float(np.average(ratio, weights=weight))
    line = np.full(len(ratio), mean) + _slope(measured.clock_mhz, ratio, weight)
    order = np.argsort(-measured.clock_mhz)
    return Curve(
        x=1.0 / measured.clock_mhz[order], time_s=measured.time_s[order], options=options, ratio=line[order]
    )


def _slope(clock_mhz: Floats, ratio: Floats, weight: Floats) -> Floats:
    """A significant weighted line's deviation from the mean at each clock, else 0."""
    none = np.zeros(len(ratio))
    if len(ratio) < 3:
        return none
    centred = clock_mhz - np.average(clock_mhz, weights=weight)
    mean = np.average(ratio, weights=weight)
    moment = float(weight @ centred**2)
    slope = float(weight @ (centred * (ratio - mean))) / moment
    residual = ratio - mean - slope * centred
    error = np.sqrt(float(weight @ residual**2) / (len(ratio) - 2) / moment)
    return slope * centred if abs(slope) > student_quantile(len(ratio) - 2) * error else none
