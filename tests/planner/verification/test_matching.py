"""Which runs are runs of a plan."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from energyopt.planner.verification.matching import check_baseline, check_plan
from energyopt.planner.verification.runs import read_run
from energyopt.schemas.errors import NotComparableError


def test_a_run_names_its_plan_by_the_files_digest(recorded: ModuleType, tmp_path: Path) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    plan = job.plan(clocks)
    file, digest = recorded.write(plan, tmp_path)
    assert check_plan(plan, file, job.record(clocks, plan_sha256=digest), "t") == ()


def test_the_same_clocks_in_other_bytes_are_accepted_with_a_note(
    recorded: ModuleType, tmp_path: Path
) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    plan = job.plan(clocks)
    file, _ = recorded.write(plan, tmp_path)
    (note,) = check_plan(plan, file, job.record(clocks, plan_sha256="ab" * 32), "t")
    assert note.startswith("t names another plan file")


@pytest.mark.parametrize(
    ("digest", "named"), [(None, "t is of no plan"), ("ab" * 32, "t is of the plan with digest abababababab")]
)
def test_other_clocks_are_refused(
    recorded: ModuleType, tmp_path: Path, digest: str | None, named: str
) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    plan = job.plan(clocks)
    file, _ = recorded.write(plan, tmp_path)
    other = job.record([1400 if clock != 1400 else 900 for clock in clocks], plan_sha256=digest)
    with pytest.raises(NotComparableError, match=f"{named}.*asked for .* MHz, this plan for"):
        check_plan(plan, file, other, "t")
    observed = job.record(clocks, plan_sha256=digest, alternative=None)
    with pytest.raises(NotComparableError, match="no operation of it is recorded to tell by"):
        check_plan(plan, file, observed, "t")


def test_other_clocks_are_named_in_the_same_way_however_rows_stand(
    recorded: ModuleType, tmp_path: Path
) -> None:
    job = recorded.Job()
    plan = job.plan(job.clocks(1))
    file, _ = recorded.write(plan, tmp_path)
    other = job.record(job.clocks(2))
    texts = set()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(other.table))
        with pytest.raises(NotComparableError) as refused:
            check_plan(plan, file, replace(other, table=other.table.take(pa.array(order))), "t")
        texts.add(str(refused.value))
    assert len(texts) == 1


def test_operations_outside_the_plan_are_of_no_plans_clock(recorded: ModuleType, tmp_path: Path) -> None:
    """The optimizer's step is recorded at the shim's own clock."""
    job = recorded.Job()
    clocks = job.clocks(1)
    plan = job.plan(clocks)
    file, _ = recorded.write(plan, tmp_path)
    run = job.record(clocks, plan_sha256="ab" * 32)
    step = next(row for row in run.table.to_pylist() if row["level"] == "op")
    step |= {"op": "optimizer", "microbatch": None, "sm_clock_mhz": 300}
    more = pa.Table.from_pylist([step], schema=run.table.schema)
    (note,) = check_plan(plan, file, replace(run, table=pa.concat_tables([run.table, more])), "t")
    assert note.startswith("t names another plan file")


def test_ranks_without_a_board_say_nothing_of_scope_or_name(recorded: ModuleType, tmp_path: Path) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    whole = job.plan(clocks, scope="module")
    file, digest = recorded.write(whole, tmp_path)
    run = job.record(clocks, plan_sha256=digest)
    known = replace(run.metadata.gpus[0], scope="module")
    blind = replace(run.metadata.gpus[1], scope=None, name=None, uuid=None)
    run = replace(run, metadata=replace(run.metadata, gpus=(known, blind)))
    assert check_plan(whole, file, run, "t") == ()
    every = replace(run, metadata=replace(run.metadata, gpus=(known, replace(known, rank=1, stage=1))))
    check_baseline(read_run(run, "a"), read_run(every, "b"), ("a", "b"))


def test_another_pipeline_is_refused_but_more_replicas_are_not(recorded: ModuleType, tmp_path: Path) -> None:
    job, longer = recorded.Job(), recorded.Job(microbatches=6)
    clocks = job.clocks(1)
    plan = job.plan(clocks)
    file, digest = recorded.write(plan, tmp_path)
    with pytest.raises(
        NotComparableError, match="the plan and t are of different jobs: microbatches: 4 and 6"
    ):
        check_plan(plan, file, longer.record(longer.clocks(1), plan_sha256=digest), "t")
    run = job.record(clocks, plan_sha256=digest)
    twice = replace(run, metadata=replace(run.metadata, pipeline=replace(job.pipeline, data_parallel=2)))
    assert check_plan(plan, file, twice, "t") == ()


def test_energies_of_another_scope_are_refused_and_another_gpu_is_said(
    recorded: ModuleType, tmp_path: Path
) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    run = job.record(clocks)
    whole = job.plan(clocks, scope="module")
    file, _ = recorded.write(whole, tmp_path)
    with pytest.raises(
        NotComparableError, match="the plan's energies are of module, those of t of gpu_board"
    ):
        check_plan(whole, file, run, "t")
    other = job.plan(clocks, device_name="another")
    file, digest = recorded.write(other, tmp_path)
    run = job.record(clocks, plan_sha256=digest)
    assert check_plan(other, file, run, "t") == ("the plan is for another, and ran on toy",)


def test_a_baseline_of_another_job_or_on_other_gpus_is_refused(recorded: ModuleType) -> None:
    job, longer = recorded.Job(), recorded.Job(microbatches=6)
    telemetry = job.record(job.clocks(1))
    run = read_run(telemetry, "a")
    check_baseline(run, run, ("a", "b"))
    with pytest.raises(NotComparableError, match="a and b are of different jobs: microbatches"):
        check_baseline(run, read_run(longer.record(longer.clocks(1)), "b"), ("a", "b"))
    gpus = tuple(replace(gpu, name="another") for gpu in telemetry.metadata.gpus)
    other = replace(telemetry, metadata=replace(telemetry.metadata, gpus=gpus))
    with pytest.raises(NotComparableError, match=r"cannot compare a \(\['toy'\]\) with b \(\['another'\]\)"):
        check_baseline(run, read_run(other, "b"), ("a", "b"))
    wide = read_run(job.record(job.clocks(1), ranks_per_stage=2), "b")
    with pytest.raises(NotComparableError, match="a on 2 ranks with b on 4"):
        check_baseline(run, wide, ("a", "b"))
