"""Whether a plan fits a run, and what comes of it if not; nothing here starts a helper that opens a board."""

import gc
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier import current_session
from energyopt.applier.runtime import current, opening, run
from energyopt.applier.runtime.agreement import Alone
from energyopt.applier.runtime.briefing import shard_header
from energyopt.applier.runtime.channel import STEP
from energyopt.applier.runtime.checks import mismatches, order_mismatch, wrong_shape
from energyopt.applier.runtime.facts import PlacedOp, RunFacts
from energyopt.applier.runtime.loading import load_plan
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.opening import open_session
from energyopt.applier.runtime.reports import MOST, Reports
from energyopt.applier.runtime.settings import Mode, Settings
from energyopt.schemas.errors import ClockControlError
from energyopt.schemas.plan import Plan, write_plan

MakePlan = Callable[..., Plan]

FACTS = RunFacts(framework="own loop", rank=0, world_size=16, stage=0, stages=1, chunks=1, microbatches=3)


def test_a_plan_that_fits(make_plan: MakePlan) -> None:
    assert mismatches(make_plan(), FACTS) == []
    assert not wrong_shape(make_plan(), FACTS)


@pytest.mark.parametrize(
    ("changes", "said", "shape"),
    [
        ({"stages": 4}, "the plan is for 1 pipeline stages, the run has 4", True),
        ({"stage": 1}, "this rank is said to run stage 1, the plan has 0 to 0", True),
        ({"stage": -1}, "this rank is said to run stage -1, the plan has 0 to 0", True),
        ({"chunks": 2}, "the plan is for 1 chunks per stage, the run has 2", False),
        ({"schedule": "gpipe"}, "the plan is for the schedule 1f1b, the run uses gpipe", False),
        ({"world_size": 16, "tensor_parallel": 8}, "the plan is for tensor_parallel 1, the run has 8", False),
        ({"context_parallel": 2}, "the plan is for context_parallel 1, the run has 2", False),
    ],
)
def test_one_that_does_not(make_plan: MakePlan, changes: dict[str, Any], said: str, shape: bool) -> None:
    facts = replace(FACTS, **changes)
    assert mismatches(make_plan(), facts) == [said]
    assert wrong_shape(make_plan(), facts) == shape


@pytest.mark.parametrize(
    "changes", [{"schedule": "interleaved-1f1b"}, {"data_parallel": 64}, {"microbatches": 16}]
)
def test_what_makes_no_difference(make_plan: MakePlan, changes: dict[str, Any]) -> None:
    """Interleaved with one chunk is 1F1B; more replicas change no operation; each iteration's length is asked."""
    assert mismatches(make_plan(), replace(FACTS, **changes)) == []


@pytest.mark.parametrize(("world_size", "fits"), [(8, True), (64, True), (4, False), (12, False)])
def test_the_world_holds_whole_replicas(make_plan: MakePlan, world_size: int, fits: bool) -> None:
    plan = make_plan(stages=2)
    plan = replace(plan, pipeline=replace(plan.pipeline, tensor_parallel=2, context_parallel=2))
    facts = replace(FACTS, world_size=world_size, stages=2, tensor_parallel=2)
    text = "2 stages x tensor_parallel 2 x context_parallel 2 = 8 ranks or a multiple of them"
    assert mismatches(plan, facts) == ([] if fits else [f"the plan is for {text}, the run has {world_size}"])


def test_the_order_where_the_framework_tells_it(make_plan: MakePlan) -> None:
    plan = make_plan()
    order = tuple(PlacedOp(kind=op.op, chunk=op.chunk, microbatch=op.microbatch) for op in plan.stages[0])
    assert order_mismatch(plan, replace(FACTS, order=order)) is None
    assert order_mismatch(plan, replace(FACTS, order=None)) is None
    swapped = (order[1], order[0], *order[2:])
    assert order_mismatch(plan, replace(FACTS, order=swapped)) == (
        "operation 0 of stage 0 is backward of microbatch 0 in the run, forward of microbatch 0 in the plan"
    )
    assert (
        order_mismatch(plan, replace(FACTS, order=order[:4])) == "stage 0 runs 4 operations, the plan has 6"
    )
    assert order_mismatch(plan, replace(FACTS, order=order[:4], microbatches=2)) is None, "another length"


@pytest.mark.parametrize("settings", [Settings(), Settings(mode=Mode.OFF, plan=Path("nothing.json"))])
def test_off(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    session = open_session(settings=settings)
    assert isinstance(session, OffSession)
    session.step(3)
    with session.op("forward", 0), session.outside():
        session.begin("forward", 0, 0, 1, 2)
        session.end()
    session.start(1)
    session.finish()
    session.set_slowdown(1.1)
    session.close()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ClockControlError, OSError, KeyError])
def test_a_helper_that_does_not_start(
    make_plan: MakePlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
) -> None:
    """Nothing is left open, this rank counts itself in no collective, and each call of the loop does nothing."""
    write_plan(tmp_path / "plan.json", make_plan())

    def fail(_orders: object) -> None:
        raise error("no driver")

    monkeypatch.setattr(opening, "start_helper", fail)
    monkeypatch.setattr(opening, "agreement", lambda *_: pytest.fail("it must not join"))
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as text
    session = open_session(tmp_path / "plan.json")
    assert capsys.readouterr().err == "", "not before training begins"
    for _ in range(2):
        session.step()
        with session.op("forward", 0):
            pass
    session.close()
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    (line,) = capsys.readouterr().err.splitlines()
    assert "no driver" in line


@pytest.mark.parametrize("rank", ["", "abc", "-1", "\u0663", "3"])
def test_a_rank_that_is_no_number(
    rank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    open_session(tmp_path / "nothing.json")
    assert capsys.readouterr().err.startswith(f"energyopt: rank {3 if rank == '3' else 0}: ")


@pytest.fixture
def nothing_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "_CURRENT", [])


@pytest.mark.usefixtures("nothing_current")
def test_the_current_session(make_plan: MakePlan, tmp_path: Path) -> None:
    assert isinstance(current_session(), OffSession)
    write_plan(tmp_path / "plan.json", make_plan())
    session = open_session(tmp_path / "plan.json")
    assert current_session() is session


@pytest.mark.usefixtures("nothing_current")
def test_a_hooked_jobs_session_takes_wishes_from_its_start_on(
    make_rig: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(agreement=Alone())
    monkeypatch.setattr(run, "open_now", lambda *_: rig.session)
    hooks = run.Run(Settings(plan=Path("plan.json")), Reports(0)).hooks_for("framework")
    current_session().set_slowdown(1.1)
    for _ in range(2):
        with hooks.iteration(lambda: FACTS, 3):
            current_session().set_slowdown(1.2 if rig.session._number else 1.1)
    with hooks.iteration(lambda: FACTS, 3):
        pass
    assert [one.second for one in rig.records() if one.kind == STEP] == [0, 1, 2]


def test_weeks_of_trouble_do_not_fill_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    reports = Reports(2)
    for number in range(1000):
        reports.once(f"trouble {number}", f"trouble {number}")
        reports.once("trouble 0", "again")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"energyopt: rank 2: trouble {number}" for number in range(MOST)]


def test_the_digest_is_of_the_file_that_was_read(make_plan: MakePlan, tmp_path: Path) -> None:
    """Sessions open late: by then the file may have been replaced by the next plan."""
    path = tmp_path / "plan.json"
    write_plan(path, make_plan())
    content = path.read_bytes()
    loaded = load_plan(path)
    path.write_text("{}")
    assert loaded.sha256 == hashlib.sha256(content).hexdigest()
    header = shard_header(loaded, FACTS, Settings(), timed_by_gpu=False)
    assert header["plan_sha256"] == loaded.sha256
