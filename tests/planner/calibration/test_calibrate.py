"""Calibration as a whole: runs with a known truth are met, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from energyopt.planner.calibration.calibrate import calibrate
from energyopt.planner.calibration.records import Calibration
from energyopt.planner.calibration.tables import calibration_tables, calibration_to_json
from energyopt.planner.job import build_job
from energyopt.planner.verification.prediction import predict, stages_of
from energyopt.planner.verification.runs import Recorded
from energyopt.schemas.errors import NotComparableError, ProfileError, RequestError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Profile
from energyopt.schemas.profile_metadata import Scope
from energyopt.schemas.telemetry import Telemetry

Fit = Callable[..., Calibration]


@pytest.fixture
def fit() -> Fit:
    def run(job: Any, runs: int = 8, seed: int = 0, **settings: Any) -> Calibration:
        recording = {
            name: settings.pop(name)
            for name in ("noise", "op_noise", "ranks_per_stage", "iterations")
            if name in settings
        }
        files = [
            Recorded(
                file=f"run {number}",
                telemetry=job.record(
                    job.clocks(seed + number), seed=seed + number, **({"iterations": 5} | recording)
                ),
            )
            for number in range(runs)
        ]
        return calibrate(files, job.schedule, **settings)

    return run


def errors(job: Any, profile: Profile, seeds: range) -> tuple[float, float]:
    """Largest relative errors of times and of single GPUs' energies over plans that were not fitted."""
    off_s, off_j = [], []
    for seed in seeds:
        clocks = job.clocks(seed)
        found = predict(stages_of(job.schedule, clocks), job.pipeline, job.schedule, profile)
        total_s, energy_j = job.cost(clocks)
        off_s.append(abs(found.iteration_time_s / total_s - 1))
        off_j += [abs(one / true - 1) for one, true in zip(found.stage_energy_j, energy_j, strict=True)]
    return max(off_s), max(off_j)


def test_without_a_profile_other_plans_are_predicted(recorded: ModuleType, fit: Fit) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01)
    found = fit(job, runs=20, noise=0.001, op_noise=0.002)
    off_s, off_j = errors(job, found.profile, range(500, 540))
    assert off_s < 0.004
    assert off_j < 0.02
    meta = found.profile.metadata
    assert (meta.device_name, meta.device_kind, meta.gpus_per_stage) == ("toy", "imported", 1)
    assert meta.measurement["calibrated_runs"] == 20
    assert meta.measurement["gpu_energy_residual_median"] < 0.003  # type: ignore[operator]


@pytest.mark.parametrize(
    ("schedule", "chunks"), [("interleaved-1f1b", 2), ("zb-h1", 1), ("gpipe", 1)], ids=str
)
def test_every_schedule_is_fitted(recorded: ModuleType, fit: Fit, schedule: str, chunks: int) -> None:
    job = recorded.Job(stages=3, microbatches=6, schedule_name=schedule, chunks=chunks, fixed_s=0.3)
    profile = recorded.Job(stages=3, microbatches=6, schedule_name=schedule, chunks=chunks).profile()
    found = fit(job, runs=10, profile=profile)
    assert len(found.ops) == len({op.key for op in job.schedule.ops})
    off_s, off_j = errors(job, found.profile, range(700, 705))
    assert off_s < 0.001
    assert off_j < 0.001


def test_a_profile_is_corrected(recorded: ModuleType, fit: Fit) -> None:
    """Backwards take 8 % longer than profiled and draw 5 % more power on stage 1; waiting draws 75 W, not 70."""
    truth = recorded.Job(
        wait_w=75.0,
        fixed_s=0.2,
        time_factor=lambda key: 1.08 if key.kind is OpKind.BACKWARD else 1.0,
        power_factor=lambda key: 1.05 if key.stage == 1 else 1.0,
    )
    profile = recorded.Job(wait_w=70.0).profile(wait_power_w=70.0)
    found = fit(truth, runs=12, noise=0.0005, profile=profile)
    ratios = {(one.key.stage, one.key.kind): (one.time_ratio, one.energy_ratio) for one in found.ops}
    assert ratios[0, OpKind.BACKWARD] == (pytest.approx(1.08, abs=1e-6), pytest.approx(1.08, abs=0.01))
    assert ratios[1, OpKind.FORWARD] == (pytest.approx(1.0, abs=1e-6), pytest.approx(1.05, abs=0.015))
    fitted = {one.name: one for one in found.fitted}
    assert fitted["fixed time"].value == pytest.approx(0.2, abs=0.01)
    wait = fitted["wait power"]
    assert wait.before == 70.0 and wait.half_width is not None
    assert abs(wait.value - 75.0) <= wait.half_width
    off_s, off_j = errors(truth, found.profile, range(300, 320))
    assert off_s < 0.002
    assert off_j < 0.005
    assert {row.sm_clock_mhz for row in found.profile.rows} == set(recorded.CLOCKS)


def test_one_observed_run_corrects_a_profile(recorded: ModuleType) -> None:
    """Nothing was set; the clocks seen serve, and everything is 3 % slower."""
    truth = recorded.Job(time_factor=lambda _: 1.03)
    telemetry = truth.record([1400] * len(truth.schedule.ops), alternative=None, iterations=6, noise=0.001)
    found = calibrate(
        [Recorded(file="t", telemetry=telemetry)], truth.schedule, profile=recorded.Job().profile()
    )
    assert [one.time_ratio for one in found.ops] == pytest.approx([1.03] * 4)
    p2p = next(one for one in found.fitted if one.name == "P2P time")
    assert (p2p.kept, p2p.half_width) == (
        "1 runs cannot tell it from the fixed time; give 4 or more, of different plans",
        None,
    )


def test_ranks_of_a_stage_are_one_sample(recorded: ModuleType, fit: Fit) -> None:
    one, two = (fit(recorded.Job(), ranks_per_stage=ranks) for ranks in (1, 2))
    energies = [[row.energy_j for row in found.profile.rows] for found in (one, two)]
    assert energies[1] == pytest.approx(energies[0])


def test_the_slowest_rank_makes_a_stages_times(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record(job.clocks(0), ranks_per_stage=2, iterations=4)
    table = telemetry.table
    slow = pc.and_(pc.equal(table["rank"], 3), pc.equal(table["level"], "op"))
    times = pc.if_else(slow, pc.multiply(table["time_s"], 1.02), table["time_s"])
    run = Recorded(file="t", telemetry=_changed(telemetry, "time_s", times))
    found = calibrate([run], job.schedule, profile=job.profile())
    assert [one.time_ratio for one in found.ops] == pytest.approx([1.0, 1.0, 1.02, 1.02])


def test_plan_takes_the_fitted_times_unless_told_otherwise(recorded: ModuleType, fit: Fit) -> None:
    found = fit(recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01), runs=15)
    pipeline, _ = build_job({"microbatches": 8}, found.profile)
    meta = found.profile.metadata
    assert (pipeline.fixed_time_s, pipeline.p2p_time_s) == (meta.fixed_time_s, meta.p2p_time_s)
    assert pipeline.fixed_time_s == pytest.approx(0.3, rel=0.02)
    assert build_job({"microbatches": 8, "fixed_time_s": 0.0}, found.profile)[0].fixed_time_s == 0.0


def test_what_was_fitted_is_shown(recorded: ModuleType, fit: Fit) -> None:
    found = fit(recorded.Job(), runs=6)
    fitted, runs, ops = calibration_tables(found)
    assert [row[0] for row in fitted.rows] == ["fixed time, s", "P2P time, s", "wait power, W"]
    assert (len(runs.rows), len(ops.rows)) == (6, 4)
    assert calibration_to_json(found)["profile_sha256"] == found.profile.sha256()


def _changed(telemetry: Telemetry, name: str, column: Any) -> Telemetry:
    table = telemetry.table
    place = table.schema.get_field_index(name)
    return replace(telemetry, table=table.set_column(place, table.schema.field(name), column))


def test_what_runs_cannot_tell_is_refused(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record(job.clocks(0), iterations=5)
    with pytest.raises(
        ProfileError, match=r"the wait power cannot be told .* --wait-power-w, or a --profile"
    ):
        calibrate([Recorded(file="t", telemetry=telemetry)], job.schedule)
    table = telemetry.table
    unread = _changed(telemetry, "energy_j", pc.if_else(True, None, table["energy_j"]).cast("float64"))
    with pytest.raises(ProfileError, match="no run has energies"):
        calibrate([Recorded(file="t", telemetry=unread)], job.schedule, wait_power_w=70.0)


def test_missing_operations_and_clocks_are_refused(recorded: ModuleType) -> None:
    job, longer = recorded.Job(), recorded.Job(microbatches=5)
    telemetry = job.record(job.clocks(0), iterations=5)
    with pytest.raises(
        NotComparableError, match=r"t: 4 of 20 operations of schedule 1f1b are not recorded, first"
    ):
        calibrate([Recorded(file="t", telemetry=telemetry)], longer.schedule)
    unseen = _changed(
        _changed(
            telemetry, "sm_clock_mhz", pc.if_else(True, None, telemetry.table["sm_clock_mhz"]).cast("int32")
        ),
        "achieved_sm_clock_mhz",
        pc.if_else(True, None, telemetry.table["sm_clock_mhz"]).cast("int32"),
    )
    with pytest.raises(NotComparableError, match="neither a clock that was asked for nor one that was seen"):
        calibrate([Recorded(file="t", telemetry=unseen)], job.schedule)


def test_runs_of_different_jobs_are_refused(recorded: ModuleType) -> None:
    job, longer = recorded.Job(), recorded.Job(microbatches=5)
    runs = [
        Recorded(file=name, telemetry=one.record(one.clocks(0))) for name, one in (("a", job), ("b", longer))
    ]
    with pytest.raises(NotComparableError, match="a and b are of different jobs: microbatches: 4 and 5"):
        calibrate(runs, job.schedule)
    with pytest.raises(RequestError, match="at least one telemetry"):
        calibrate([], job.schedule)
    for power_w in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RequestError, match="--wait-power-w needs a power above 0"):
            calibrate(runs[:1], job.schedule, wait_power_w=power_w)
    gpus = tuple(replace(gpu, name="another") for gpu in runs[0].telemetry.metadata.gpus)
    metadata = replace(runs[0].telemetry.metadata, gpus=gpus)
    other = Recorded(file="c", telemetry=replace(runs[0].telemetry, metadata=metadata))
    with pytest.raises(NotComparableError, match=r"a ran on \['toy'\], c on \['another'\]"):
        calibrate([runs[0], other], job.schedule)
    with pytest.raises(NotComparableError, match="the profile's energies are of module, those of a of"):
        calibrate(runs[:1], job.schedule, profile=job.profile(scope=Scope.MODULE))


def test_intervals_of_the_wait_power_hold_the_truth(recorded: ModuleType, fit: Fit) -> None:
    job = recorded.Job(stages=3, microbatches=4)
    inside = 0
    for seed in range(20):
        found = fit(
            job,
            runs=8,
            seed=1000 + 10 * seed,
            noise=0.003,
            iterations=3,
            profile=job.profile(wait_power_w=60.0),
        )
        wait = found.fitted[2]
        assert wait.half_width is not None
        inside += abs(wait.value - job.wait_w) <= wait.half_width
    assert inside >= 17


def test_the_order_of_runs_does_not_matter(recorded: ModuleType) -> None:
    job = recorded.Job()
    runs = [
        Recorded(file=str(number), telemetry=job.record(job.clocks(number), noise=0.001))
        for number in range(6)
    ]
    one, other = calibrate(runs, job.schedule), calibrate(runs[::-1], job.schedule)
    assert np.array([row.energy_j for row in one.profile.rows]) == pytest.approx(
        np.array([row.energy_j for row in other.profile.rows]), rel=1e-6
    )
