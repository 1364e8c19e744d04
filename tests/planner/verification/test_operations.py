"""Operations by clock: the slowest rank's times, the clocks seen, the reasons, the profile's times."""

from dataclasses import replace
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from energyopt.planner.verification.operations import chosen_ops, op_rows, work_rows
from energyopt.planner.verification.runs import read_run
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.telemetry import Telemetry


def changed(telemetry: Telemetry, name: str, where: pa.ChunkedArray, values: pa.ChunkedArray) -> Telemetry:
    """The same run with other values in some rows of a column."""
    table = telemetry.table
    column = pc.if_else(where, values, table[name])
    return replace(
        telemetry,
        table=table.set_column(table.schema.get_field_index(name), table.schema.field(name), column),
    )


def test_each_clock_of_an_operation_is_one_row(recorded: ModuleType) -> None:
    job = recorded.Job()
    clocks = [1400 if op.microbatch else 900 for op in job.schedule.ops]
    telemetry = job.record(clocks, iterations=5)
    rows = op_rows(chosen_ops(telemetry, read_run(telemetry, "t").numbers), job.profile())
    found = {(row.stage, row.op, row.sm_clock_mhz): row for row in rows}
    assert len(found) == len(rows) == 8
    row = found[1, OpKind.BACKWARD, 900]
    key = OpKey(1, 0, OpKind.BACKWARD)
    assert (row.ops, row.achieved_sm_clock_mhz, row.throttle) == (5, 900.0, ())
    assert row.time.measured is not None
    assert row.time.measured.mean == pytest.approx(recorded.op_time_s(key, 900))
    assert row.time.predicted == pytest.approx(recorded.op_time_s(key, 900))
    assert row.time.deviation is not None and row.time.deviation.value == pytest.approx(0.0, abs=1e-12)


def test_the_slowest_rank_speaks_for_its_stage(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record([1200] * len(job.schedule.ops), iterations=4, ranks_per_stage=2)
    table = telemetry.table
    slow = pc.and_(pc.equal(table["rank"], 1), pc.equal(table["level"], "op"))
    telemetry = changed(telemetry, "time_s", slow, pc.multiply(table["time_s"], 1.5))
    ops = chosen_ops(telemetry, read_run(telemetry, "t").numbers)
    rows = op_rows(ops, job.profile())
    off = {(row.stage, row.op): row.time.deviation.value for row in rows if row.time.deviation}
    assert off[0, OpKind.FORWARD] == pytest.approx(0.5)
    assert off[1, OpKind.FORWARD] == pytest.approx(0.0, abs=1e-12)
    work = work_rows(rows, ops)
    assert [row.measured_s / row.predicted_s for row in work] == pytest.approx([1.5, 1.0])
    busy_s = sum(recorded.op_time_s(op.key, 1200) for op in job.schedule.ops if op.stage == 1)
    assert work[1].measured_s == pytest.approx(busy_s)


def test_reasons_are_joined_and_named(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record([1200] * len(job.schedule.ops), iterations=4)
    table = telemetry.table
    where = pc.and_(pc.equal(table["op"], "forward"), pc.equal(table["iteration"], 2))
    telemetry = changed(telemetry, "throttle", where, pa.array([4 | 64] * len(table)))
    rows = op_rows(chosen_ops(telemetry, read_run(telemetry, "t").numbers), None)
    reasons = {row.op: row.throttle for row in rows}
    assert reasons == {OpKind.FORWARD: ("power cap", "hardware thermal limit"), OpKind.BACKWARD: ()}
    assert {row.time.predicted for row in rows} == {None}


def test_only_the_chosen_iterations_count(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record([1200] * len(job.schedule.ops), iterations=6)
    rows = op_rows(chosen_ops(telemetry, read_run(telemetry, "t", skip=4).numbers), None)
    assert {row.ops for row in rows} == {2 * job.microbatches}


def test_work_outside_the_pipeline_is_shown_and_not_predicted(recorded: ModuleType) -> None:
    job = recorded.Job()
    telemetry = job.record([1200] * len(job.schedule.ops), iterations=3)
    table = telemetry.table
    names = pc.if_else(pc.equal(table["op"], "forward"), "optimizer", table["op"])
    telemetry = changed(telemetry, "op", pc.equal(table["op"], "forward"), names)
    ops = chosen_ops(telemetry, read_run(telemetry, "t").numbers)
    rows = op_rows(ops, job.profile())
    assert {row.op for row in rows if row.time.predicted is None} == {OpKind.OPTIMIZER}
