"""Calibration of runs that are not all of one kind: replicas, observers, clocks that were not held, other GPUs."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from energyopt.planner.calibration.calibrate import calibrate
from energyopt.planner.calibration.tables import calibration_tables, calibration_to_json
from energyopt.planner.simulation import simulate
from energyopt.planner.verification.runs import Recorded
from energyopt.schemas.errors import NotComparableError, ProfileError
from energyopt.schemas.files import canonical_json
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.telemetry import Mode, Telemetry


def changed(telemetry: Telemetry, name: str, where: Any, values: Any) -> Telemetry:
    """Other values in some rows of a column."""
    table = telemetry.table
    field = table.schema.field(name)
    column = pc.if_else(where, values, table[name]).cast(field.type)
    return replace(telemetry, table=table.set_column(table.schema.get_field_index(name), field, column))


def is_op(telemetry: Telemetry) -> Any:
    return pc.equal(telemetry.table["level"], "op")


def two_replicas(job: Any, clocks: list[int], slower: float) -> Telemetry:
    """Replica 0 is slower on even stages, replica 1 on odd ones; the iteration ends with the later of the two."""
    telemetry = job.record(clocks, ranks_per_stage=2, iterations=6)
    ends_s = []
    for replica in range(2):
        times = [
            time_s * (slower if op.stage % 2 == replica else 1.0)
            for op, time_s in zip(job.schedule.ops, job.times_s(clocks), strict=True)
        ]
        ends_s.append(simulate(job.schedule, times, 0.0, job.fixed_s).iteration_time_s)
    table = telemetry.table
    odd_rank, odd_stage = (pc.bit_wise_and(table[name], 1) for name in ("rank", "stage"))
    slow = pc.and_(is_op(telemetry), pc.equal(odd_rank, odd_stage))
    telemetry = changed(telemetry, "time_s", slow, pc.multiply(table["time_s"], slower))
    return changed(telemetry, "time_s", pc.invert(is_op(telemetry)), pa.scalar(max(ends_s)))


@pytest.mark.parametrize("slower", [1.01, 1.03, 1.05])
def test_each_replica_has_a_path_of_its_own(recorded: ModuleType, slower: float) -> None:
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.02)
    runs = [
        Recorded(file=str(seed), telemetry=two_replicas(job, job.clocks(seed), slower)) for seed in range(8)
    ]
    found = calibrate(runs, job.schedule, profile=job.profile())
    fixed = found.fitted[0]
    assert fixed.value == pytest.approx(0.02, abs=1e-4)
    assert max(abs(run.fitted_s / run.measured_s - 1) for run in found.runs) < 1e-5
    assert any(note.startswith("2 data-parallel replicas: ") for note in found.notes)


def test_operations_longer_than_iterations_are_said(recorded: ModuleType) -> None:
    job = recorded.Job(fixed_s=0.0)
    telemetry = job.record(job.clocks(0), iterations=5)
    longer = pc.multiply(telemetry.table["time_s"], 1.01)
    run = Recorded(file="t", telemetry=changed(telemetry, "time_s", is_op(telemetry), longer))
    found = calibrate([run], job.schedule, profile=job.profile())
    assert any("longest path takes 1.00 % more than the iterations" in note for note in found.notes)
    assert found.fitted[0].value == 0.0


def test_clocks_that_were_not_held_are_said_and_stand_in_the_rows(recorded: ModuleType) -> None:
    """Asked for 1400 MHz, run at 1000 under the power cap."""
    job = recorded.Job()
    telemetry = job.record([1000] * len(job.schedule.ops), iterations=6)
    telemetry = changed(telemetry, "sm_clock_mhz", is_op(telemetry), pa.scalar(1400, pa.int32()))
    telemetry = changed(telemetry, "throttle", is_op(telemetry), pa.scalar(4, pa.int64()))
    found = calibrate([Recorded(file="t", telemetry=telemetry)], job.schedule, wait_power_w=70.0)
    rows = {(row.sm_clock_mhz, row.achieved_sm_clock_mhz, row.throttle) for row in found.profile.rows}
    assert rows == {(1400, 1000, 4)}
    assert any("t: 80 of 80 recorded operations ran more than 2 % below" in note for note in found.notes)
    assert found.scope[0].startswith(
        "t: energies: GPU boards only; 2 GPUs of 2 ranks (toy); iterations: 1 to 5"
    )
    assert calibration_to_json(found)["scope"] == list(found.scope)


def test_rows_far_from_what_ran_are_refused_or_said(recorded: ModuleType) -> None:
    job = recorded.Job()
    run = Recorded(file="t", telemetry=job.record([1400] * len(job.schedule.ops)))
    low = replace(job.profile(), rows=tuple(row for row in job.profile().rows if row.sm_clock_mhz <= 1000))
    with pytest.raises(ProfileError, match=r"100 % of the operations ran far from any row: .* at 1400 MHz"):
        calibrate([run], job.schedule, profile=low)
    notes = calibrate([run], job.schedule, profile=job.profile()).notes
    assert (
        "forward of stage 0: 4 of 6 rows, 900 to 1200 MHz, are corrected by runs at 1400 to 1400 MHz alone"
        in notes
    )


def test_a_tensor_parallel_peer_that_only_observed_is_left_out(recorded: ModuleType) -> None:
    """It ran at 900 MHz, longer and on another energy; the ranks that set clocks are as the profile says."""
    job = recorded.Job()
    runs = []
    for seed in range(8):
        telemetry = job.record(job.clocks(seed), ranks_per_stage=2, iterations=4)
        observing = pc.equal(pc.bit_wise_and(telemetry.table["rank"], 1), 1)
        ops = pc.and_(observing, is_op(telemetry))
        telemetry = changed(telemetry, "time_s", ops, pc.multiply(telemetry.table["time_s"], 1.5))
        telemetry = changed(telemetry, "energy_j", observing, pc.multiply(telemetry.table["energy_j"], 2.0))
        telemetry = changed(telemetry, "sm_clock_mhz", ops, pa.scalar(None, pa.int32()))
        telemetry = changed(telemetry, "alternative", observing, pa.scalar(None, pa.int32()))
        meta = telemetry.metadata
        gpus = tuple(replace(gpu, mode=Mode.OBSERVE) if gpu.rank % 2 else gpu for gpu in meta.gpus)
        pipeline = replace(meta.pipeline, data_parallel=1, tensor_parallel=2)
        meta = replace(meta, gpus=gpus, pipeline=pipeline)
        runs.append(Recorded(file=str(seed), telemetry=replace(telemetry, metadata=meta)))
    found = calibrate(runs, job.schedule, profile=job.profile(gpus_per_stage=2))
    assert [one.time_ratio for one in found.ops] == pytest.approx([1.0] * 4)
    assert [one.energy_ratio for one in found.ops] == pytest.approx([1.0] * 4, abs=0.001)
    assert any("2 ranks that only observed are left out" in note for note in found.notes)


def test_a_profile_of_another_gpu_or_of_other_degrees_is_refused(recorded: ModuleType) -> None:
    job = recorded.Job()
    run = Recorded(file="t", telemetry=job.record(job.clocks(0)))
    for metadata, message in (
        ({"device_name": "another"}, "the profile is of another, and t ran on toy"),
        ({"workload": {"tp": 8}}, "the profile was measured with tensor_parallel 8, t ran with 1"),
    ):
        with pytest.raises(NotComparableError, match=message):
            calibrate([run], job.schedule, profile=job.profile(**metadata))


def test_runs_that_tell_nothing_are_refused_with_the_reason(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record(job.clocks(0))
    mixed = replace(
        telemetry,
        table=changed(telemetry, "alternative", True, telemetry.table["rank"]).table,
    )
    timeless = changed(
        telemetry, "time_s", pc.fill_null(pc.equal(telemetry.table["op"], "forward"), False), pa.scalar(0.0)
    )
    for one, message in (
        (mixed, "in each of its 19 iterations ranks ran different alternatives"),
        (timeless, "8 of 16 operations of schedule 1f1b took no time, first the forward"),
    ):
        with pytest.raises(NotComparableError, match=message):
            calibrate([Recorded(file="t", telemetry=one)], job.schedule, wait_power_w=70.0)


def test_energies_that_leave_nothing_for_waiting_are_refused(recorded: ModuleType) -> None:
    """They fall with the iteration's time, so that the more a GPU waits, the less it would draw."""
    job = recorded.Job()
    runs = []
    for seed in range(8):
        clocks = job.clocks(seed)
        telemetry = job.record(clocks, iterations=4)
        less = pc.multiply(telemetry.table["energy_j"], (2.0 / job.cost(clocks)[0]) ** 1.6)
        runs.append(Recorded(file=str(seed), telemetry=changed(telemetry, "energy_j", True, less)))
    with pytest.raises(ProfileError, match="no GPU draws 0 W"):
        calibrate(runs, job.schedule, wait_power_w=70.0)


def test_a_run_without_energies_among_others_is_shown_as_such(recorded: ModuleType) -> None:
    job = recorded.Job()
    runs = [job.record(job.clocks(seed), iterations=4) for seed in range(3)]
    runs[1] = changed(runs[1], "energy_j", True, pa.scalar(0.0))
    files = [Recorded(file=str(number), telemetry=one) for number, one in enumerate(runs)]
    found = calibrate(files, job.schedule, profile=job.profile())
    assert calibration_tables(found)[1].rows[1][-3:] == ("-", "-", "-")
    canonical_json(calibration_to_json(found))


def test_an_earlier_calibrations_interval_goes_with_its_value(recorded: ModuleType) -> None:
    """A kept P2P time keeps its interval; those of what is fitted anew without one go."""
    job = recorded.Job(stages=4, microbatches=8, fixed_s=0.3, p2p_s=0.01)
    runs = [Recorded(file=str(seed), telemetry=job.record(job.clocks(seed))) for seed in range(12)]
    first = calibrate(runs, job.schedule, profile=job.profile()).profile
    again = calibrate(runs[:1], job.schedule, profile=first)
    name = "p2p_time_half_width_s"
    assert again.profile.metadata.measurement[name] == first.metadata.measurement[name]
    assert again.fitted[1].half_width == first.metadata.measurement[name]
    short = Recorded(file="s", telemetry=job.record(job.clocks(0), iterations=2))
    last = calibrate([short], job.schedule, profile=first).profile
    assert "fixed_time_half_width_s" not in last.metadata.measurement


def test_a_long_run_counts_more_than_a_short_one(recorded: ModuleType) -> None:
    """100 iterations of 1 % longer operations, 1 of 10 % longer: the ratio lies by the first."""
    slow, odd = (recorded.Job(time_factor=lambda _, by=by: by) for by in (1.01, 1.1))
    clocks = slow.clocks(0)
    runs = [
        Recorded(file="long", telemetry=slow.record(clocks, iterations=101)),
        Recorded(file="short", telemetry=odd.record(clocks, iterations=2)),
    ]
    found = calibrate(runs, slow.schedule, profile=recorded.Job().profile())
    weights = np.array([100 / 108, 1 / 9])
    expected = float(weights @ [1.01, 1.1] / weights.sum())
    assert [one.time_ratio for one in found.ops] == pytest.approx([expected] * 4)
    key = OpKey(0, 0, OpKind.FORWARD)
    assert next(one.ops for one in found.ops if one.key == key) == 2 * slow.microbatches
