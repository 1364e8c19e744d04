"""What a training loop calls, with a stand-in for the helper; the records are read from the other end."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.runtime.agreement import Alone
from energyopt.applier.runtime.channel import BEGIN, END, OP_TIME, OUTSIDE, STEP, UNKNOWN
from energyopt.schemas.ops import OpKind

Make = Callable[..., Any]

ORDER = [(kind, microbatch) for microbatch in range(3) for kind in ("forward", "backward")]
"""Of the plan of `make_rig`."""


def kinds(records: list[Any]) -> list[tuple[int, int]]:
    return [(one.kind, one.value) for one in records]


def test_an_iteration_that_is_recorded(make_rig: Make) -> None:
    rig = make_rig()
    before = time.monotonic_ns()
    rig.session.step()
    rig.run_all()
    rig.session.step()
    records = rig.records()
    ops = [pair for position in range(6) for pair in ((BEGIN, position), (END, 0))]
    assert kinds(records) == [(STEP, 1), *ops, (STEP, 3), (OP_TIME, UNKNOWN)]
    times = [one.first for one in records[:-1]]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.monotonic_ns()
    assert records[-1].first == 0, "what is said of the cost names the iteration"
    assert 0 < records[-1].second < times[-1] - before, "the cost counts from the call on"
    assert rig.reports.said == ()


def test_an_iteration_that_is_not_recorded_says_the_least(make_rig: Make) -> None:
    rig = make_rig(every=3)
    for _ in range(4):
        rig.session.step()
        rig.run_all()
    steps = [one.value for one in rig.records() if one.kind == STEP]
    assert steps == [0 << 1 | 1, 1 << 1, 2 << 1, 3 << 1 | 1]
    rig.session.step()
    rig.records()
    rig.run_all()
    assert kinds(rig.records()) == [*((BEGIN, position) for position in range(6)), (END, 0)]


def test_none_are_recorded_without_telemetry(make_rig: Make) -> None:
    rig = make_rig(every=0)
    rig.session.step()
    rig.run_all()
    rig.session.step()
    assert [one.value & 1 for one in rig.records() if one.kind == STEP] == [0, 0]


@pytest.mark.parametrize("kind", ["forward", OpKind.FORWARD])
def test_kinds_are_text_or_the_enumeration(make_rig: Make, kind: str) -> None:
    rig = make_rig(every=0)
    rig.session.step()
    with rig.session.op(kind, 0):
        pass
    assert (BEGIN, 0) in kinds(rig.records())
    assert rig.reports.said == ()


def test_an_unknown_operation_is_reported_once(make_rig: Make) -> None:
    rig = make_rig(every=0)
    for _ in range(3):
        rig.session.step()
        rig.records()
        rig.session.begin("forward", 99)
        rig.session.begin("forward_backward", 0)
    assert kinds(rig.records()) == [(BEGIN, UNKNOWN)] * 2
    assert rig.reports.said == (
        "the plan has no forward of microbatch 99; such operations run at 1395 MHz",
        "the plan has no forward_backward of microbatch 0; such operations run at 1395 MHz",
    )


@pytest.mark.parametrize("kind", ["optimizer", "grad_sync"])
def test_what_a_plan_may_leave_out_is_not_worth_a_word(make_rig: Make, kind: str) -> None:
    rig = make_rig()
    for _ in range(2):
        rig.session.step()
        rig.run_all()
        with rig.session.op(kind, 0):
            pass
    assert (BEGIN, UNKNOWN) in kinds(rig.records())
    assert rig.reports.said == ()


def test_evaluation(make_rig: Make) -> None:
    """The iteration before it has ended, nothing in it is known or worth a word, and then all is as before."""
    rig = make_rig(every=0)
    rig.session.step()
    rig.run_all()
    rig.records()
    for _ in range(2):
        with rig.session.outside():
            rig.run_all()
    assert kinds(rig.records()) == [(OUTSIDE, 1), *[(BEGIN, UNKNOWN)] * 6] * 2
    rig.session.step()
    rig.run_all()
    assert kinds(rig.records())[1:-1] == [(BEGIN, position) for position in range(6)]
    assert rig.reports.said == ()


@pytest.mark.parametrize("ops_inside", [0, 1, 2])
def test_evaluation_does_not_hide_that_an_iteration_was_cut_short(make_rig: Make, ops_inside: int) -> None:
    rig = make_rig(every=0)
    rig.session.step()
    rig.run_all()
    with rig.session.outside():
        for _ in range(ops_inside):
            rig.session.begin("forward", 0)
    rig.session.step()
    assert rig.reports.said == ()
    rig.session.begin("forward", 0)
    with pytest.raises(ValueError, match="bad batch"), rig.session.outside():
        raise ValueError("bad batch")
    rig.session.step()
    assert len(rig.reports.said) == 1
    assert "iteration 1 ended after 1 of the plan's 6 operations" in rig.reports.said[0]


def test_another_number_of_microbatches(make_rig: Make) -> None:
    """A short last batch, or ramp-up: its operations may have the plan's names, but they are not the plan's."""
    rig = make_rig(every=0)
    for microbatches in (2, 1, 2):
        rig.session.step(microbatches)
        for kind, microbatch in ORDER[: 2 * microbatches]:
            rig.session.begin(kind, microbatch)
    written = kinds(rig.records())
    assert all(value == UNKNOWN for kind, value in written if kind == BEGIN)
    assert [kind for kind, _ in written[:2]] == [STEP, OUTSIDE]
    assert (OUTSIDE, 1) not in written, "it is an iteration still"
    for microbatches in (3, None):
        rig.session.step(microbatches)
        rig.run_all()
        assert kinds(rig.records())[1] == (BEGIN, 0)
    assert rig.reports.said == (
        "an iteration has 2 microbatches, the plan is for 3: such iterations run at 1395 MHz",
    )


def test_skipped_steps_and_replayed_graphs(make_rig: Make) -> None:
    rig = make_rig(every=0)
    for _ in range(5):
        rig.session.step()
    (said,) = rig.reports.said
    assert "iteration 0 ended after 0 of the plan's 6 operations" in said


def test_another_order(make_rig: Make) -> None:
    """Each operation still has its own clock."""
    rig = make_rig(every=0)
    for _ in range(2):
        rig.session.step()
        for kind, microbatch in sorted(ORDER, key=lambda op: op[0], reverse=True):
            rig.session.begin(kind, microbatch)
    begun = [one.value for one in rig.records() if one.kind == BEGIN]
    assert begun == [0, 2, 4, 1, 3, 5] * 2
    (said,) = rig.reports.said
    assert said.startswith("forward of microbatch 1 runs in another order than in the plan")


def test_alternatives_switch_where_an_iteration_begins(make_rig: Make) -> None:
    """`finish` tells the wish; `step`, which has no such place, tells it where the next iteration begins."""
    rig = make_rig(agreement=Alone())
    rig.session.start()
    rig.run_all()
    rig.session.set_slowdown(1.15)
    rig.session.finish()
    rig.session.start()
    rig.session.set_slowdown(1.2)
    rig.session.finish()
    rig.session.set_slowdown(1.0)
    rig.session.step()
    rig.session.step()
    rig.session.step()
    steps = [(one.value >> 1, one.second) for one in rig.records() if one.kind == STEP]
    assert steps == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 0)]


def test_a_loop_with_step_never_waits_for_what_it_has_only_just_asked(make_rig: Make) -> None:
    """Else it would wait, at each step, for the slowest rank to come to the same place."""

    class Others:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def result(self) -> float:
            self.calls.append("result")
            return 1.0

        def launch(self, _wish: float) -> None:
            self.calls.append("launch")

        def close(self) -> None:
            pass

    others = Others()
    rig = make_rig(agreement=others)
    for _ in range(3):
        rig.session.step()
        others.calls.append("work")
        rig.run_all()
    assert others.calls == ["result", "launch", "work"] * 3
