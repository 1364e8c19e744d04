"""What a training run recorded, as tables and as JSON."""

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from energyopt.planner.tables import Table
from energyopt.planner.verification.operations import chosen_ops, op_rows
from energyopt.planner.verification.records import OpRow
from energyopt.planner.verification.runs import MIXED, NONE_RUN, Run, read_run
from energyopt.planner.verification.scope import run_notes, scope_lines
from energyopt.planner.verification.statistics import Estimate, estimate
from energyopt.planner.wording import MISSING, number, percent
from energyopt.schemas.telemetry import Telemetry

_NAMES = {NONE_RUN: "no plan", MIXED: "different plans", 0: "the plan"}
_ONLY_OPS = (
    *("level", "op", "chunk", "microbatch", "backward_chunk", "backward_microbatch"),
    *("start_s", "sm_clock_mhz"),
)
_SUMS = ("clock_sets", "dropped_requests")
_TIMES = ("overhead_s", "helper_cpu_s")


def telemetry_tables(telemetry: Telemetry, file: str) -> tuple[Table, ...]:
    """Scope, each stage's iterations, operations by clock, what the shim cost, and its reports."""
    run = read_run(telemetry, file, every_rank=False)
    tables = [_scope(run), _stages(run), _ops(telemetry, run), _shim(telemetry)]
    if telemetry.metadata.reports:
        rows = tuple((report,) for report in telemetry.metadata.reports)
        tables.append(Table(title="reports", columns=("what the run had to say",), rows=rows))
    return tuple(tables)


def telemetry_to_json(telemetry: Telemetry, file: str) -> dict[str, Any]:
    """The run's metadata, its iterations in full, and its operations by (stage, chunk, kind, clock)."""
    run = read_run(telemetry, file, every_rank=False)
    metadata = asdict(telemetry.metadata) | {"pipeline": telemetry.metadata.pipeline.to_json()}
    rows = op_rows(chosen_ops(telemetry, run.numbers), None)
    return {
        "format": "energyopt-telemetry",
        "metadata": metadata,
        "scope": [*scope_lines(run, 0), *run_notes(run)],
        "iterations": telemetry.iterations.drop_columns(list(_ONLY_OPS)).to_pylist(),
        "ops": [_op_to_json(row) for row in rows],
    }


def _scope(run: Run) -> Table:
    meta = run.metadata
    modes = sorted({str(gpu.mode) for gpu in meta.gpus})
    settings = (
        ("plan", meta.plan_sha256 or MISSING),
        ("profile", meta.profile_sha256 or MISSING),
        ("framework", meta.framework or MISSING),
        ("mode", ", ".join(modes)),
        ("recorded", meta.time or MISSING),
        *((name, str(value)) for name, value in meta.pipeline.to_json().items()),
    )
    lines = [tuple(line.split(": ", 1)) for line in scope_lines(run, 0)]
    notes = [("note", note) for note in run_notes(run)]
    return Table(title="telemetry", columns=("", "value"), rows=(*lines, *notes, *settings))


def _stages(run: Run) -> Table:
    rows = []
    for alternative in sorted(set(run.alternative.tolist())):
        chosen = run.of(alternative)
        name = _NAMES.get(alternative, f"alternative {alternative}")
        rows.append(_stage_row(name, estimate(run.time_s[chosen]), estimate(run.energy_j[chosen]), run.gpus))
        rows += [
            _stage_row(
                f"{name}, stage {stage}",
                estimate(run.stage_time_s[chosen, stage]),
                estimate(run.stage_energy_j[chosen, stage]),
                boards,
            )
            for stage, boards in enumerate(run.boards)
        ]
    columns = ("per iteration", "iterations", "time s", "+-", "spread", "GPUs", "energy J", "+-", "spread")
    return Table(
        title="iterations; +- is half the 95 % interval of the mean", columns=columns, rows=tuple(rows)
    )


def _stage_row(name: str, time: Estimate | None, energy: Estimate | None, boards: int) -> tuple[str, ...]:
    iterations = MISSING if time is None else str(time.iterations)
    return (name, iterations, *_cells(time, "s"), str(boards), *_cells(energy, "J"))


def _cells(one: Estimate | None, unit: str) -> tuple[str, str, str]:
    if one is None:
        return MISSING, MISSING, MISSING
    return number(one.mean, unit), percent(one.relative_half_width), percent(one.relative_std)


def _ops(telemetry: Telemetry, run: Run) -> Table:
    columns = ("operation", "asked MHz", "seen MHz", "ops", "time s", "+-", "held back by")
    rows = tuple(_op_row(row) for row in op_rows(chosen_ops(telemetry, run.numbers), None))
    return Table(title="operations by clock, on each stage's slowest rank", columns=columns, rows=rows)


def _op_row(row: OpRow) -> tuple[str, ...]:
    measured = row.time.measured
    return (
        f"{row.op} of stage {row.stage}{f', chunk {row.chunk}' if row.chunk else ''}",
        MISSING if row.sm_clock_mhz is None else str(row.sm_clock_mhz),
        number(row.achieved_sm_clock_mhz, "MHz"),
        str(row.ops),
        MISSING if measured is None else f"{measured.mean:.5g}",
        percent(None if measured is None else measured.relative_half_width),
        ", ".join(row.throttle) or MISSING,
    )


def _op_to_json(row: OpRow) -> dict[str, Any]:
    found = asdict(row)
    found["time_s"] = found.pop("time")["measured"]
    return found


def _shim(telemetry: Telemetry) -> Table:
    """What setting clocks took, over all recorded iterations of all ranks."""
    columns = ("per iteration and rank", "mean", "highest")
    iterations = telemetry.iterations
    rows = tuple(_shim_row(iterations[name], name) for name in (*_SUMS, *_TIMES))
    return Table(title="the shim itself", columns=columns, rows=rows)


def _shim_row(column: pa.ChunkedArray, name: str) -> tuple[str, str, str]:
    mean, most = pc.mean(column).as_py(), pc.max(column).as_py()
    if mean is None:
        return name, MISSING, MISSING
    return (name, f"{mean:.3g}", f"{most:.3g}") if name in _TIMES else (name, f"{mean:.1f}", str(most))
