"""Putting a job together: settings, schedule files and the profile must agree."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.job import build_job, calibrated_otherwise, merged_settings, schedule_of, unused_kinds
from energyopt.schemas.errors import EnergyoptError, ProfileError, RequestError, ScheduleError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Profile

CSV = "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n"


@pytest.fixture
def staged(small_profile: Profile) -> Profile:
    """The small profile with rows for stage 0 and stage 1."""
    rows = [
        replace(row, stage=stage) for row in small_profile.rows for stage in (0, 1) if row.invalid is None
    ]
    return replace(small_profile, rows=tuple(rows))


def test_flags_override_the_file() -> None:
    file = {"stages": 4, "microbatches": 8}
    assert merged_settings(file, {"stages": 2, "schedule": None}) == {"stages": 2, "microbatches": 8}


def test_stages_come_from_the_profile_where_it_has_them(staged: Profile) -> None:
    pipeline, schedule = build_job({"microbatches": 3}, staged)
    assert (pipeline.stages, schedule.stages, pipeline.schedule) == (2, 2, "1f1b")


def test_fitted_times_come_from_the_profile(staged: Profile) -> None:
    fitted = replace(staged, metadata=replace(staged.metadata, p2p_time_s=0.01, fixed_time_s=0.2))
    pipeline, _ = build_job({"microbatches": 3, "p2p_time_s": 0.0}, fitted)
    assert (pipeline.p2p_time_s, pipeline.fixed_time_s) == (0.0, 0.2)


def test_the_schedule_of_a_plan_is_known_by_name_or_read_from_its_file(tmp_path: Path) -> None:
    assert schedule_of(Pipeline(stages=2, microbatches=3)).name == "1f1b"
    file = tmp_path / "order.csv"
    file.write_text(CSV)
    named = Pipeline(stages=2, microbatches=2, schedule="csv:order.csv")
    assert schedule_of(named, file).orders[1][0].microbatch == 0
    with pytest.raises(RequestError, match=r"the schedule is csv:order.csv; give its file with --schedule"):
        schedule_of(named)
    with pytest.raises(RequestError, match=r"holds csv:order.csv of \(2, 2, 1\)"):
        schedule_of(replace(named, microbatches=3), file)


def test_missing_settings_are_asked_for(small_profile: Profile) -> None:
    with pytest.raises(RequestError, match="how many pipeline stages"):
        build_job({"microbatches": 3}, small_profile)
    with pytest.raises(RequestError, match="how many microbatches"):
        build_job({"stages": 2}, small_profile)


def test_a_profile_of_more_stages_is_of_another_job(staged: Profile) -> None:
    with pytest.raises(ProfileError, match="the profile has 2 stages and the job 1"):
        build_job({"stages": 1, "microbatches": 3}, staged)


def test_a_profile_of_another_tensor_degree_is_refused(staged: Profile) -> None:
    metadata = replace(staged.metadata, workload={"tp": 8})
    profile = replace(staged, metadata=metadata)
    with pytest.raises(ProfileError, match="give --tensor-parallel 8"):
        build_job({"microbatches": 3, "tensor_parallel": 1}, profile)
    pipeline, _ = build_job({"microbatches": 3, "tensor_parallel": 8}, profile)
    assert pipeline.tensor_parallel == 8


def test_an_unknown_schedule_lists_the_known(staged: Profile) -> None:
    with pytest.raises(ScheduleError, match=r"unknown schedule '2f2b': known are gpipe, 1f1b.*\.csv"):
        build_job({"microbatches": 3, "schedule": "2f2b"}, staged)


def test_a_schedule_file_gives_the_sizes(staged: Profile, tmp_path: Path) -> None:
    path = tmp_path / "order.csv"
    path.write_text(CSV)
    pipeline, schedule = build_job({"schedule": str(path)}, staged)
    assert (pipeline.stages, pipeline.microbatches, pipeline.schedule) == (2, 2, "csv:order.csv")
    assert [str(op.kind)[0] for op in schedule.orders[1]] == ["f", "b", "f", "b"]
    with pytest.raises(RequestError, match="has microbatches = 2, but 3 was asked for"):
        build_job({"schedule": str(path), "microbatches": 3}, staged)


def test_a_missing_schedule_file(staged: Profile, tmp_path: Path) -> None:
    with pytest.raises(EnergyoptError, match=r"cannot read .*none\.csv"):
        build_job({"schedule": str(tmp_path / "none.csv")}, staged)


def test_kinds_that_never_run_are_named(staged: Profile) -> None:
    _, schedule = build_job({"microbatches": 3}, staged)
    extra = replace(staged.rows[0], op=OpKind.OPTIMIZER)
    assert unused_kinds(staged, schedule) == []
    assert unused_kinds(replace(staged, rows=(*staged.rows, extra)), schedule) == [OpKind.OPTIMIZER]


def test_a_profile_of_more_chunks_is_of_another_job(staged: Profile) -> None:
    rows = tuple(replace(row, chunk=chunk) for row in staged.rows for chunk in (0, 1))
    chunked = replace(staged, rows=rows)
    with pytest.raises(
        ProfileError, match="the profile has 2 chunks per stage and the job 1: give --chunks 2"
    ):
        build_job({"microbatches": 2, "chunks_per_stage": 1}, chunked)
    settings = {"microbatches": 2, "schedule": "interleaved-1f1b"}
    assert build_job(settings, chunked)[0].chunks_per_stage == 2


def test_a_profile_of_another_context_degree_is_refused(staged: Profile) -> None:
    profile = replace(staged, metadata=replace(staged.metadata, workload={"tp": 1, "cp": 2}))
    with pytest.raises(ProfileError, match="give --context-parallel 2"):
        build_job({"microbatches": 3, "context_parallel": 1}, profile)
    assert build_job({"microbatches": 3}, profile)[0].context_parallel == 2


@pytest.mark.parametrize(("name", "value"), [("microbatches", 96), ("schedule", "gpipe"), ("stages", 4)])
def test_a_profile_calibrated_with_another_job_is_told(name: str, value: Any, staged: Profile) -> None:
    own, _ = build_job({"microbatches": 3}, staged)
    told = {f"calibrated_{field}": getattr(own, field) for field in ("microbatches", "schedule", "stages")}
    same = replace(staged, metadata=replace(staged.metadata, measurement=told))
    assert calibrated_otherwise(staged, own) is None
    assert calibrated_otherwise(same, own) is None
    other = replace(
        staged, metadata=replace(staged.metadata, measurement=told | {f"calibrated_{name}": value})
    )
    text = calibrated_otherwise(other, own)
    assert text is not None
    assert f"{name} {value}" in text
