"""Plans, settings and disks that do not serve: training runs on, and it is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.schemas.plan import Plan, write_plan

OneLine = Callable[..., None]


def test_another_number_of_microbatches(trainer: Any, one_line: OneLine) -> None:
    """A plan for 3 in a run of 16."""
    run = trainer.start(step="16", microbatches=16, op_s=0.002)
    run.survived()
    one_line(run, "an iteration has 16 microbatches, the plan is for 3", "1395 MHz")
    assert set(trainer.sets()) == {1395}
    assert trainer.as_found()


@pytest.mark.parametrize("stage", ["7", "-1"])
def test_a_stage_that_the_plan_does_not_have(trainer: Any, one_line: OneLine, stage: str) -> None:
    run = trainer.start(
        before=f"import energyopt.applier.runtime.opening as o; real = o.open_session; "
        f"o.open_session = lambda plan: real(plan, stage={stage})"
    )
    run.survived()
    one_line(run, f"stage {stage}", "the plan has 0 to 0", "clocks are left alone")
    assert trainer.fake.calls() == []


def test_other_stages(trainer: Any, one_line: OneLine) -> None:
    facts = (
        "import energyopt.applier.runtime.opening as o; from energyopt.applier.runtime.facts import RunFacts; "
        "real = o.open_session; o.open_session = lambda plan: real(plan, facts=RunFacts(framework='x', rank=0, "
        "world_size=4, stage=2, stages=4, chunks=1, microbatches=3))"
    )
    run = trainer.start(before=facts)
    run.survived()
    one_line(run, "the plan is for 1 pipeline stages, the run has 4", "clocks are left alone")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_truncated, Path.unlink, _folder, lambda path: path.write_text("[]")])
def test_a_plan_file_that_cannot_be_read(
    trainer: Any, one_line: OneLine, spoil: Callable[[Path], None]
) -> None:
    spoil(trainer.plan)
    run = trainer.start()
    run.survived()
    one_line(run, str(trainer.plan), "training goes on without a plan")
    assert trainer.fake.calls() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("MODE", "fast"), ("SLOWDOWN", "nan")],
)
def test_settings_that_make_no_sense(trainer: Any, one_line: OneLine, name: str, value: str) -> None:
    run = trainer.start(iterations=2, op_s=0, **{f"ENERGYOPT_{name}": value})
    run.survived()
    one_line(run, f"ENERGYOPT_{name} is {value!r}", "training goes on without a plan")


def test_a_device_that_is_not_there(trainer: Any, one_line: OneLine) -> None:
    run = trainer.start(iterations=2, ENERGYOPT_DEVICE="nvml:17")
    run.survived()
    one_line(run, "17", "clocks are left alone")


def test_a_folder_for_telemetry_that_cannot_be_written(trainer: Any, one_line: OneLine) -> None:
    run = trainer.start(ENERGYOPT_TELEMETRY="/proc/no/such", ENERGYOPT_SAMPLE_EVERY="1")
    run.survived()
    one_line(run, "telemetry: cannot write /proc/no/such/rank0.jsonl", "training goes on without it")
    assert trainer.sets()
    assert trainer.as_found()


def test_a_disk_that_fills_up(
    trainer: Any, one_line: OneLine, tmp_path: Path, make_plan: Callable[..., Plan]
) -> None:
    """The helper may write files of up to 4 kB, which the header and a few iterations take."""
    write_plan(
        trainer.plan, make_plan(clocks=(1395,))
    )  # one set, for the fake driver's log has that limit too
    limit = (
        "if iteration == 0: resource.prlimit(session.open()._helper.pid, resource.RLIMIT_FSIZE, (4096, 4096))"
    )
    run = trainer.start(
        iterations=40,
        op_s=0.002,
        during=limit,
        ENERGYOPT_TELEMETRY=str(tmp_path / "tele"),
        ENERGYOPT_SAMPLE_EVERY="1",
    )
    run.survived()
    one_line(run, "telemetry: cannot write", "training goes on without it")
    assert (tmp_path / "tele" / "rank0.jsonl").stat().st_size <= 4096
    assert trainer.as_found()
