"""What a session says of partitions, and when."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.overlap import communicators
from energyopt.applier.overlap.ways import Ways
from energyopt.applier.runtime.late import LateSession
from energyopt.applier.runtime.loading import load_plan
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.opening import open_session
from energyopt.schemas.errors import RequestError
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import Plan, write_plan

Make = Callable[..., Any]
MLP = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=12, comm_launch="activation")


def partitioned(plan: Plan, config: PartitionConfig = MLP) -> Plan:
    """Every forward is cut in two and overlaps its MLP, in the plan and its alternatives."""

    def stages(stages: Any) -> Any:
        return tuple(
            tuple(
                replace(op, nanobatches=2, partitions=(("mlp", config),)) if op.op == "forward" else op
                for op in ops
            )
            for ops in stages
        )

    others = tuple(replace(one, stages=stages(one.stages)) for one in plan.alternatives)
    return replace(plan, stages=stages(plan.stages), alternatives=others)


@pytest.fixture
def session(make_rig: Make, make_plan: Make) -> LateSession:
    rig = make_rig(plan=partitioned(make_plan()), plan_sha256="0" * 64)
    late = LateSession(lambda: rig.session)
    late.communicators()
    return late


def asked(session: Any, kind: str = "forward", microbatch: int = 0) -> tuple[Any, int]:
    with session.op(kind, microbatch):
        return session.partition("mlp"), session.nanobatches()


PLAIN = (None, 1)


def test_the_operation_that_runs_now(session: LateSession) -> None:
    assert asked(session) == PLAIN  # before training begins
    session.step()
    assert (session.partition("mlp"), session.nanobatches()) == PLAIN  # between operations
    with session.op("forward", 0):
        assert session.partition("mlp") == MLP
        assert session.partition("attention") is None
        assert session.nanobatches() == 2
    assert asked(session, "backward") == PLAIN
    assert asked(session, microbatch=7) == PLAIN
    assert asked(session, "no such kind") == PLAIN
    with session.outside():
        assert asked(session) == PLAIN
    assert asked(session, microbatch=2) == (MLP, 2)
    session.step(2)
    assert asked(session) == PLAIN  # an iteration of another length
    session.step(3)
    assert asked(session) == (MLP, 2)


def test_a_session_that_fails_goes_on_with_the_partitions(session: LateSession) -> None:
    """Ranks of which one stops following the plan would wait for each other for ever."""
    session.step()
    own = session.open()
    own._fail(RuntimeError("a defect"))  # type: ignore[union-attr]
    assert asked(session) == (MLP, 2)
    session.step()
    assert asked(session) == (MLP, 2)
    with session.outside():
        assert asked(session) == PLAIN
    assert asked(session) == (MLP, 2)


def test_a_slowdown_changes_no_partition(make_rig: Make, make_plan: Make) -> None:
    """Ranks may disagree for an iteration about which alternative they run."""

    class Slow:
        def launch(self, _wish: float) -> None: ...
        def result(self) -> float:
            return 1.1

    rig = make_rig(plan=partitioned(make_plan()), plan_sha256="0" * 64, agreement=Slow())
    late = LateSession(lambda: rig.session)
    late.communicators()
    late.step()
    assert asked(late) == (MLP, 2)


def test_without_communicators_nothing_is_followed(make_rig: Make, make_plan: Make) -> None:
    rig = make_rig(plan=partitioned(make_plan()), plan_sha256="0" * 64)
    late = LateSession(lambda: rig.session)
    late.step()
    assert asked(late) == PLAIN
    (said,) = rig.reports.said
    assert "session.communicators" in said
    late.communicators()  # late, but in time for the next iteration
    late.step()
    assert asked(late) == (MLP, 2)


def test_a_plan_without_partitions_says_nothing(make_rig: Make) -> None:
    rig = make_rig(plan_sha256="0" * 64)
    LateSession(lambda: rig.session).step()
    assert rig.reports.said == ()


def test_one_refusal_counts_for_the_whole_run(
    session: LateSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session.step()
    monkeypatch.setattr(communicators, "all_agree", lambda *_: False)
    session.communicators()
    monkeypatch.undo()
    session.communicators()
    session.step()
    assert asked(session) == PLAIN
    assert capsys.readouterr().err.count("not every rank can follow") == 1


def test_a_session_that_only_observes(make_rig: Make, make_plan: Make) -> None:
    rig = make_rig(plan=partitioned(make_plan()))
    late = LateSession(lambda: rig.session)
    late.communicators()
    late.step()
    assert asked(late) == PLAIN
    assert rig.reports.said == ()


def test_the_counts_of_a_plan(make_rig: Make, make_plan: Make) -> None:
    ways: Ways = make_rig(plan=partitioned(make_plan()), plan_sha256="0" * 64).session.ways
    assert ways.sms == (12,)


def test_off() -> None:
    session = OffSession()
    assert session.communicators().group(12) is None
    assert asked(session) == PLAIN


@pytest.mark.parametrize("where", ["plan", "alternatives"])
def test_partitions_with_clocks_of_their_own_are_refused(
    where: str, make_plan: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = partitioned(make_plan(), replace(MLP, sm_clock_mhz=1005))
    if where == "alternatives":
        mixed = replace(
            make_plan(), alternatives=(replace(make_plan().alternatives[0], stages=mixed.stages),)
        )
    write_plan(tmp_path / "plan.json", mixed)
    text = (
        "the plan gives partition mlp of forward on stage 0 a clock of its own, 1005 MHz, and the shim sets those "
        "of operations alone: plan without --mixed-clocks"
    )
    with pytest.raises(RequestError, match=text):
        load_plan(tmp_path / "plan.json")
    assert isinstance(open_session(tmp_path / "plan.json"), OffSession)
    assert capsys.readouterr().err.strip() == f"energyopt: rank 0: {text}; training goes on without a plan"
