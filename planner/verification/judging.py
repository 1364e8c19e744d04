"""Putting a prediction beside a measured mean, and judging the difference."""

import re
from dataclasses import replace

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
    """A prediction times `scale` beside a measurement; judged where a tolerance is given.

    What is to be judged and cannot be compared, or has no interval, is "cannot tell", with the reason.
    """
    scaled = None if predicted is None else predicted * scale
    if scaled is None or measured is None or scaled <= 0:
        found = Quantity(predicted=scaled, measured=measured, deviation=None)
        return found if tolerance is None else doubt(found, _why_not(scaled, measured))
    off = deviation(measured, scaled)
    if tolerance is None:
        return Quantity(predicted=scaled, measured=measured, deviation=off)
    found = Quantity(predicted=scaled, measured=measured, deviation=off, verdict=judge(off, tolerance))
    if off.low is None:
        return doubt(found, f"{measured.iterations} iterations are too few for an interval")
    return found


def judge(off: Interval, tolerance: float) -> Verdict:
    """Whether a deviation keeps to the tolerance, in either direction: a model that is off is off both ways.

    The whole interval decides; where there is none, nothing can be told.
    """
    if off.low is None or off.high is None:
        return Verdict.UNKNOWN
    if -tolerance <= off.low and off.high <= tolerance:
        return Verdict.WITHIN
    return Verdict.BEYOND if off.low > tolerance or off.high < -tolerance else Verdict.UNKNOWN


def doubt(one: Quantity, why: str) -> Quantity:
    """The same, of which nothing can be told, and why; what is beyond the tolerance stays so."""
    return one if one.verdict is Verdict.BEYOND else replace(one, verdict=Verdict.UNKNOWN, why=why)


def not_judged(one: Quantity, why: str) -> Quantity:
    """The same without a verdict, and why there is none."""
    return replace(one, verdict=Verdict.NOT_JUDGED, why=why)


def _why_not(predicted: float | None, measured: Estimate | None) -> str:
    if measured is None:
        return "it was not read"
    return "nothing is predicted for it" if predicted is None else f"{predicted:g} is no prediction"
