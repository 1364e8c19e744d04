"""`energyopt verify`: exit codes, what is printed, what is refused."""

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from energyopt.schemas.profile import write_profile
from energyopt.schemas.telemetry import read_telemetry, write_telemetry

Energyopt = Callable[..., int]


@pytest.fixture
def files(recorded: ModuleType, tmp_path: Path) -> Any:
    """plan.json, run.parquet, base.parquet and profile.parquet of one job, in a folder."""
    job = recorded.Job()
    clocks = job.clocks(3)
    _, digest = recorded.write(job.plan(clocks), tmp_path)
    top = [1400] * len(job.schedule.ops)
    run = job.record(clocks, plan_sha256=digest, noise=0.001)
    write_telemetry(tmp_path / "run.parquet", run)
    write_telemetry(tmp_path / "base.parquet", job.record(top, alternative=None, noise=0.001, seed=1))
    write_profile(tmp_path / "profile.parquet", job.profile(fixed_time_s=job.fixed_s))
    return tmp_path


def test_a_kept_promise_is_0_and_names_its_scope(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = energyopt(
        "verify", files / "plan.json", files / "run.parquet", "--baseline", files / "base.parquet"
    )
    printed = capsys.readouterr().out
    assert code == 0
    assert "energies: GPU boards only; 2 GPUs of 2 ranks (toy)" in printed
    assert "iterations: 1 to 19 as the run counts them, 19 in all, the first 1 skipped" in printed
    assert "measured against the baseline run (2 GPUs; 19 and 19 iterations" in printed
    assert "where the model is off most: --profile shows at which stage" in printed
    assert printed.splitlines()[-1].startswith("verified, tolerance +-2 %: time ")


def test_several_baselines_show_what_runs_differ_by(
    energyopt: Energyopt, recorded: ModuleType, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = recorded.Job()
    again = job.record([1400] * len(job.schedule.ops), alternative=None, noise=0.001, seed=2)
    write_telemetry(files / "again.parquet", again)
    words = ("--baseline", files / "base.parquet", "--baseline", files / "again.parquet")
    assert energyopt("verify", files / "plan.json", files / "run.parquet", *words) == 0
    printed = capsys.readouterr().out
    assert "measured against 2 baseline runs (2 GPUs; 19 and 38 iterations" in printed
    assert "differences between runs are in the interval" in printed


def test_an_energy_that_was_not_read_is_1_unless_only_the_time_is_asked(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = (run := read_telemetry(files / "run.parquet")).table
    place = table.schema.get_field_index("energy_j")
    unread = pa.nulls(len(table), pa.float64())
    write_telemetry(
        files / "unread.parquet",
        replace(run, table=table.set_column(place, table.schema.field(place), unread)),
    )
    words = ("verify", files / "plan.json", files / "unread.parquet")
    assert energyopt(*words) == 1
    assert "energy not compared (cannot tell: no GPU gave a reading)" in capsys.readouterr().out
    assert energyopt(*words, "--time-only") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("verified, ")


def test_a_schedule_that_is_not_used_is_said(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("verify", files / "plan.json", files / "run.parquet", "--schedule", "none.csv") == 0
    assert capsys.readouterr().err == "note: --schedule none.csv is not used without --profile\n"


def test_the_order_of_rows_changes_no_byte(
    energyopt: Energyopt, recorded: ModuleType, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = recorded.Job()
    run = job.record(job.clocks(3), noise=0.001, op_noise=0.01)
    order = np.random.default_rng(0).permutation(len(run.table))
    texts, profiles = [], []
    for table in (run.table, run.table.take(pa.array(order))):
        write_telemetry(files / "any.parquet", replace(run, table=table))
        words = ("--profile", files / "profile.parquet", "--json")
        assert energyopt("verify", files / "plan.json", files / "any.parquet", *words) == 0
        texts.append(capsys.readouterr().out)
        assert energyopt("calibrate", files / "any.parquet", "-o", files / "c.parquet", *words) == 0
        profiles.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert profiles[0] == profiles[1]


def test_the_plan_may_come_through_a_pipe(energyopt: Energyopt, files: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes((files / "plan.json").read_bytes()))
    writer.start()
    assert energyopt("verify", pipe, files / "run.parquet", "--json") == 0
    writer.join()


def test_a_tight_tolerance_is_1(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("verify", files / "plan.json", files / "run.parquet", "--tolerance", "0.001%")
    assert energyopt(*words) == 1
    assert "NOT VERIFIED" in capsys.readouterr().out


def test_without_a_baseline_the_saving_is_called_predicted(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("verify", files / "plan.json", files / "run.parquet", "--skip", 5) == 0
    printed = capsys.readouterr().out
    assert "predicted, not measured: against every operation at its highest clock (2 GPUs)" in printed
    assert "the first 5 skipped" in printed


def test_json_has_everything(energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "verify",
        files / "plan.json",
        files / "run.parquet",
        "--profile",
        files / "profile.parquet",
        "--json",
    )
    assert energyopt(*words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] is False
    (section,) = found["sections"]
    assert section["numbers"] == list(range(1, 20))
    assert section["time"]["verdict"] == "within"
    assert abs(section["stages"][1]["energy"]["deviation"]["value"]) < 0.002
    assert {row["op"] for row in found["ops"]} == {"forward", "backward"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{0}/plan.json", "{0}/base.parquet"), "base.parquet is of no plan, not of"),
        (("{0}/plan.json", "{0}/run.parquet", "--tolerance", "2"), "--tolerance: '2' is no share"),
        (("{0}/plan.json", "{0}/run.parquet", "--skip", "20"), "no iteration to look at"),
        (("{0}/plan.json", "{0}/plan.json"), "plan.json: not a Parquet file"),
        (("{0}/run.parquet", "{0}/run.parquet"), "run.parquet"),
        (("{0}/plan.json", "{0}/none.parquet"), "cannot read"),
    ],
)
def test_what_cannot_be_verified_is_2(
    energyopt: Energyopt,
    files: Path,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert energyopt("verify", *(word.format(files) for word in words)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_calibrate_writes_a_profile_that_plan_and_verify_take(
    energyopt: Energyopt, recorded: ModuleType, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = recorded.Job(fixed_s=0.2)
    runs = [files / f"{number}.parquet" for number in range(8)]
    for number, run in enumerate(runs):
        write_telemetry(run, job.record(job.clocks(number), iterations=4))
    new = files / "new.parquet"
    assert energyopt("calibrate", *runs, "-o", new, "--profile", files / "profile.parquet") == 0
    printed = capsys.readouterr()
    assert "fixed time, s" in printed.out and "wait power, W" in printed.out
    assert "fitted to 8 runs" in printed.err
    assert energyopt("show", new) == 0
    assert "measurement calibrated_runs" in capsys.readouterr().out
    assert (
        energyopt("plan", new, "-o", files / "f.parquet", "--microbatches", 4, "--effort", "quick", "--json")
        == 0
    )
    pipeline = json.loads(capsys.readouterr().out)["pipeline"]
    assert pipeline["fixed_time_s"] == pytest.approx(0.2, rel=0.05)


def test_calibrate_without_a_profile_and_its_json(
    energyopt: Energyopt, recorded: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = recorded.Job(stages=3, microbatches=6)
    runs = [tmp_path / f"{number}.parquet" for number in range(8)]
    for number, run in enumerate(runs):
        write_telemetry(run, job.record(job.clocks(number), iterations=4))
    words = ("calibrate", *runs, "-o", tmp_path / "new.parquet", "--wait-power-w", 70, "--json")
    assert energyopt(*words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["fitted"]] == ["fixed time", "P2P time", "wait power"]
    assert found["metadata"]["fixed_time_s"] == pytest.approx(job.fixed_s, rel=0.05)


def test_calibrate_never_writes_over_what_it_reads(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = files / "run.parquet"
    before = run.read_bytes()
    assert energyopt("calibrate", run, "-o", run) == 2
    assert "is an input of this command" in capsys.readouterr().err
    assert run.read_bytes() == before


def test_show_tells_what_a_run_recorded(
    energyopt: Energyopt, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("show", files / "run.parquet") == 0
    printed = capsys.readouterr().out
    assert "GPU boards only; 2 GPUs of 2 ranks (toy)" in printed
    assert "the plan, stage 1" in printed
    assert "operations by clock" in printed
    assert energyopt("show", files / "run.parquet", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metadata"]["world_size"] == 2
    assert len(found["iterations"]) == 40
