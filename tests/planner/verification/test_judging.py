"""Tolerances and verdicts."""

import pytest

from energyopt.planner.verification.judging import compare, doubt, judge, parse_tolerance
from energyopt.planner.verification.records import Verdict
from energyopt.planner.verification.statistics import Estimate, Interval
from energyopt.schemas.errors import RequestError


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), (" 0.5 %", 0.005), (".25%", 0.0025)])
def test_a_tolerance_is_a_share(text: str, share: float) -> None:
    assert parse_tolerance(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["2", "0%", "-1%", "2 J", "", "nan%", "1e400%"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--tolerance"):
        parse_tolerance(text)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.015, Verdict.WITHIN),
        (0.021, 0.03, Verdict.BEYOND),
        (-0.05, -0.03, Verdict.BEYOND),
        (0.01, 0.03, Verdict.UNKNOWN),
        (-0.5, 0.5, Verdict.UNKNOWN),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, verdict: Verdict) -> None:
    assert judge(Interval(value=(low + high) / 2, low=low, high=high), 0.02) is verdict


@pytest.mark.parametrize("value", [0.0, 0.019, -0.021])
def test_without_an_interval_nothing_can_be_told(value: float) -> None:
    assert judge(Interval(value=value), 0.02) is Verdict.UNKNOWN


def test_what_is_not_shown_to_be_within_fails() -> None:
    assert [one for one in Verdict if one.fails] == [Verdict.BEYOND, Verdict.UNKNOWN]


def test_a_prediction_is_scaled_to_the_gpus_that_were_read() -> None:
    found = compare(100.0, Estimate(mean=202.0, iterations=9, half_width=0.1), 0.02, scale=2)
    assert (found.predicted, found.verdict, found.why) == (200.0, Verdict.WITHIN, None)
    assert found.deviation is not None and found.deviation.value == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("predicted", "measured", "why"),
    [
        (100.0, None, "it was not read"),
        (None, Estimate(mean=1.0, iterations=9, half_width=0.1), "nothing is predicted for it"),
        (0.0, Estimate(mean=1.0, iterations=9, half_width=0.1), "0 is no prediction"),
        (100.0, Estimate(mean=100.0, iterations=2), "2 iterations are too few for an interval"),
    ],
)
def test_what_is_to_be_judged_and_cannot_be_is_said(
    predicted: float | None, measured: Estimate | None, why: str
) -> None:
    found = compare(predicted, measured, 0.02)
    assert (found.verdict, found.why) == (Verdict.UNKNOWN, why)
    assert compare(predicted, measured).verdict is Verdict.NOT_JUDGED


def test_doubt_saves_nothing_that_is_beyond() -> None:
    measured = Estimate(mean=110.0, iterations=9, half_width=0.1)
    assert doubt(compare(100.0, measured, 0.02), "x").verdict is Verdict.BEYOND
    assert doubt(compare(110.0, measured, 0.02), "x").why == "x"
