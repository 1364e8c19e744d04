"""Putting a prediction beside a measured mean, and judging the difference."""

import re

from energyopt.planner.verification.records import Quantity, Verdict
from energyopt.planner.verification.statistics import Estimate, Interval, deviation
from energyopt.schemas.errors import RequestError

_PERCENT = re.compile(r"(?P<value>[0-9]+\.?[0-9]*|\.[0-9]+)\s*%")


def parse_tolerance(text: str) -> float:
    """Read a share such as `2%`.

    Raises:
        RequestError: anything else, or 0, which no measurement can keep to.
    """
    found = _PERCENT.fullmatch(text.strip())
    value = 0.0 if found is None else float(found["value"]) / 100
    if value <= 0:
        raise RequestError(f"--tolerance: {text!r} is no share above 0, such as 2% or 0.5%")
    return value


def compare(
    predicted: float | None, measured: Estimate | None, tolerance: float | None = None, scale: float = 1.0
) -> Quantity:
    """A prediction times `scale` beside a measurement; judged where a tolerance is given."""
    scaled = None if predicted is None else predicted * scale
    if scaled is None or measured is None or scaled <= 0:
        return Quantity(predicted=scaled, measured=measured, deviation=None)
    off = deviation(measured, scaled)
    verdict = Verdict.NOT_JUDGED if tolerance is None else judge(off, tolerance)
    return Quantity(predicted=scaled, measured=measured, deviation=off, verdict=verdict)


def judge(off: Interval, tolerance: float) -> Verdict:
    """Whether a deviation keeps to the tolerance, in either direction: a model that is off is off both ways.

    The whole interval decides; where there is none, the mean alone.
    """
    low = off.value if off.low is None else off.low
    high = off.value if off.high is None else off.high
    if -tolerance <= low and high <= tolerance:
        return Verdict.WITHIN
    return Verdict.BEYOND if low > tolerance or high < -tolerance else Verdict.UNKNOWN
