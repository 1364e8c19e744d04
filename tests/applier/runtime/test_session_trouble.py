"""A session when training, its caller or its helper misbehave: it never raises, and leaves no clock behind."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.runtime.channel import BEGIN, CLOSE, END, NUMBER_MASK, OP_TIME, STEP, UNKNOWN

Make = Callable[..., Any]


def kinds(records: list[Any]) -> list[tuple[int, int]]:
    return [(one.kind, one.value) for one in records]


def test_an_exception_in_an_operation_passes_and_ends_it(make_rig: Make) -> None:
    rig = make_rig()
    rig.session.step()
    with pytest.raises(ZeroDivisionError), rig.session.op("forward", 0):
        _ = 1 / 0
    assert kinds(rig.records())[-2:] == [(BEGIN, 0), (END, 0)]


class Untold:
    """Cannot be shown."""

    def __hash__(self) -> int:
        return 7

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "arguments",
    [(None, None), ("forward", "0"), (["forward"], 0), ("forward", {}), (7, -1), (Untold(), Untold())],
)
def test_nonsense_never_raises_and_leaves_no_clock_behind(make_rig: Make, arguments: tuple[Any, ...]) -> None:
    """What cannot even be looked up stops the shim, and then the helper is told that it is over."""
    rig = make_rig()
    rig.session.step()
    rig.session.begin(*arguments)
    rig.session.end()
    assert len(rig.reports.said) == 1
    assert kinds(rig.records())[-2:] in ([(BEGIN, UNKNOWN), (END, 0)], [(STEP, 1), (CLOSE, 0)])
    rig.session.step(object())  # type: ignore[arg-type]
    rig.session.close()
    assert rig.helper.dismissed == 1


class Unequal:
    """As an array is, whose comparison has no truth."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_a_defect_stops_the_shim_and_not_the_training(make_rig: Make) -> None:
    class Everybody:
        launched = asked = 0

        def launch(self, _wish: float) -> None:
            self.launched += 1

        def result(self) -> float:
            self.asked += 1
            return 1.0

    others = Everybody()
    rig = make_rig(agreement=others)
    rig.session.step()
    rig.session.begin("forward", 0)
    rig.session.step(Unequal())
    for _ in range(3):
        rig.session.step()
        rig.run_all()
        with rig.session.outside():
            rig.session.begin("nothing", 0)
    assert len(rig.reports.said) == 2, "of the iteration that was cut short, and"
    said = rig.reports.said[-1]
    assert said.startswith("the shim has stopped itself: ValueError: ambiguous; the clocks are given back")
    assert rig.records()[-1].kind == CLOSE
    assert (others.launched, others.asked) == (5, 5), "else the other ranks' collectives would hang"


def test_an_end_without_a_begin(make_rig: Make) -> None:
    rig = make_rig()
    rig.session.end()
    rig.session.step()
    rig.session.end()
    rig.session.end()
    rig.session.begin("forward", 0)
    assert kinds(rig.records())[-1] == (BEGIN, 0)
    assert rig.reports.said == ()


def test_operations_before_the_first_step_are_not_planned(make_rig: Make) -> None:
    rig = make_rig()
    rig.session.begin("forward", 0)
    assert kinds(rig.records()) == [(BEGIN, UNKNOWN)]
    assert rig.reports.said == ()


def test_close(make_rig: Make) -> None:
    rig = make_rig()
    rig.session.step()
    rig.run_all()
    rig.records()
    rig.session.close()
    assert kinds(rig.records()) == [(OP_TIME, UNKNOWN), (CLOSE, 0)], (
        "nobody knows when the last iteration ended, so that it gets no end"
    )
    assert rig.helper.dismissed == 1
    rig.session.close()
    rig.session.step()
    rig.run_all()
    with rig.session.outside():
        rig.session.begin("forward", 99)
    rig.session.step(2)
    assert rig.records() == []
    assert rig.helper.dismissed == 1
    assert rig.reports.said == ()


def test_a_helper_that_does_not_end_is_said(make_rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig()
    monkeypatch.setattr(rig.helper, "dismiss", lambda: False)
    rig.session.close()
    (said,) = rig.reports.said
    assert "was killed" in said
    assert "energyopt doctor" in said


def test_a_helper_that_has_ended(make_rig: Make) -> None:
    """Found at an iteration's start; from then on nothing is written, and another gives back what is left."""
    rig = make_rig()
    rig.session.step()
    rig.helper.code = -9
    for _ in range(3):
        rig.run_all()
        rig.session.step()
    (said,) = rig.reports.said
    assert "the process that sets clocks has ended (exit code -9)" in said
    assert rig.helper.gave_back == 1
    rig.records()
    rig.session.step()
    rig.run_all()
    assert rig.records() == []
    rig.session.close()
    assert rig.helper.dismissed == 1


def test_a_helper_that_does_nothing(make_rig: Make) -> None:
    """Stopped, or stuck in the driver: said once, and training does not wait for it."""
    rig = make_rig()
    rig.session.step()
    assert rig.reports.said == (), "it has not looked yet"
    rig.reader.beat(time.monotonic_ns() - 29 * 10**9)
    rig.session.step()
    assert not any("has done nothing" in said for said in rig.reports.said)
    rig.reader.beat(time.monotonic_ns() - 31 * 10**9)
    rig.session.step()
    rig.session.step()
    assert sum("has done nothing for 31 s" in said for said in rig.reports.said) == 1


def test_a_forked_worker_writes_nothing(make_rig: Make) -> None:
    rig = make_rig()
    rig.session.step()
    rig.records()
    worker = os.fork()
    if worker == 0:
        code = 1
        try:
            rig.session.begin("forward", 0)
            rig.session.step()
            rig.run_all()
            rig.session.close()
            code = rig.helper.dismissed
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0
    assert rig.records() == []
    rig.session.begin("forward", 0)
    assert kinds(rig.records()) == [(BEGIN, 0)]


def test_iterations_are_counted_for_years(make_rig: Make) -> None:
    """The number in a record is 31 bits wide and begins again."""
    rig = make_rig()
    rig.session._number = 2**31 - 2
    for _ in range(3):
        rig.session.step()
        rig.run_all()
    rig.session.close()
    records = rig.records()
    assert [one.value >> 1 for one in records if one.kind == STEP] == [2**31 - 1, 0, 1]
    assert [one.first for one in records if one.kind == OP_TIME] == [2**31 - 1, 0, 1]
    assert NUMBER_MASK == 2**31 - 1
    assert rig.reports.said == ()


def test_reports_go_to_the_helper_as_well(make_rig: Make) -> None:
    rig = make_rig()
    rig.reports.passed_on = rig.helper.tell
    rig.session.step(2)
    rig.session.step(2)
    assert rig.helper.told == list(rig.reports.said)


def test_a_closed_standard_error_does_no_harm(
    make_rig: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(os.devnull).open() as file:
        pass
    for closed in (None, file):
        monkeypatch.setattr(sys, "stderr", closed)
        rig = make_rig()
        rig.session.step(2)
        assert len(rig.reports.said) == 1
    assert capsys.readouterr().out == "", "nor does it go to the training's output"
