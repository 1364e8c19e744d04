"""The workloads that were really trained under many plans, as plan files and telemetry files of this tool.

The data holds the time of each operation as a mean over a plan's iterations; it is entered once, under the first
iteration that is no stall. Each stage is one rank on a board of its own.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.registry import Settings, UnavailableError
from benchmarks.workloads import tiny
from energyopt.planner.options import measured_options
from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.simulation import simulate
from energyopt.planner.verification.prediction import stages_of
from energyopt.planner.verification.runs import STALL
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.ops import OpKey, OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan
from energyopt.schemas.telemetry import (
    ARROW_SCHEMA,
    ITERATION,
    OP,
    Gpu,
    Mode,
    Telemetry,
    TelemetryMetadata,
    write_telemetry,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredJob:
    """One workload: P plans, n operations as in the schedule, S stages."""

    name: str
    gpu: str
    pipeline: Pipeline
    schedule: Schedule
    clock_mhz: "np.typing.NDArray[np.int64]"  # [P, n]
    time_s: "np.typing.NDArray[np.float64]"  # [P, n]
    iterations: list[list[dict[str, Any]]]  # per plan: stage, iteration, time_s, energy_j

    @property
    def plans(self) -> int:
        """How many plans were run."""
        return len(self.clock_mhz)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """One plan that was run, on disk."""

    number: int
    plan: Path
    telemetry: Path


def measured_jobs(settings: Settings) -> list[MeasuredJob]:
    """All workloads of the data; in a smoke run one that is made up.

    Raises:
        UnavailableError: the data is not there.
    """
    if settings.smoke:
        return [_made_up()]
    folder = settings.data / "measured-runs"
    for name in ("ops.parquet", "iterations.parquet"):
        if not (folder / name).exists():
            raise UnavailableError(f"no {name} in {folder}; say with --data where the real data is")
    ops, iterations = (_read(folder / f"{name}.parquet") for name in ("ops", "iterations"))
    names = sorted(set(ops["model"].to_pylist()))
    return [
        _job(name, *(table.filter(pc.equal(table["model"], name)) for table in (ops, iterations)))
        for name in names
    ]


def write_runs(job: MeasuredJob, folder: Path) -> list[RunFiles]:
    """Write a plan and a telemetry file for every plan that was run."""
    return [_write_run(job, number, folder) for number in range(job.plans)]


def _read(path: Path) -> Any:
    return pq.ParquetFile(path).read(use_threads=False)


def _job(name: str, ops: Any, iterations: Any) -> MeasuredJob:
    columns = {column: ops[column].to_pylist() for column in ops.column_names}
    pipeline = Pipeline(stages=max(columns["stage"]) + 1, microbatches=max(columns["microbatch"]) + 1)
    schedule = build_schedule(pipeline)
    index = {(op.stage, str(op.kind), op.microbatch): number for number, op in enumerate(schedule.ops)}
    plans = max(columns["plan"]) + 1
    clock_mhz, time_s = np.zeros((plans, len(index)), dtype=np.int64), np.zeros((plans, len(index)))
    keys = zip(columns["stage"], columns["instruction"], columns["microbatch"], strict=True)
    places = [index[key] for key in keys]
    clock_mhz[columns["plan"], places] = columns["frequency_mhz"]
    time_s[columns["plan"], places] = columns["time_s"]
    rows: list[list[dict[str, Any]]] = [[] for _ in range(plans)]
    for row in iterations.to_pylist():
        rows[row["plan"]].append(row)
    return MeasuredJob(
        name=name,
        gpu=columns["gpu"][0],
        pipeline=pipeline,
        schedule=schedule,
        clock_mhz=clock_mhz,
        time_s=time_s,
        iterations=rows,
    )


def _write_run(job: MeasuredJob, number: int, folder: Path) -> RunFiles:
    files = RunFiles(
        number=number,
        plan=folder / f"{job.name}.{number}.plan.json",
        telemetry=folder / f"{job.name}.{number}.telemetry.parquet",
    )
    write_plan(files.plan, _plan(job, number))
    digest = hashlib.sha256(files.plan.read_bytes()).hexdigest()
    write_telemetry(files.telemetry, _telemetry(job, number, digest))
    return files


def _plan(job: MeasuredJob, number: int) -> Plan:
    return Plan(
        profile_sha256=None,
        device_name=job.gpu,
        device_kind="imported",
        pipeline=job.pipeline,
        gpus=job.pipeline.stages,
        predicted=None,
        max_clock=None,
        best_single_clock=None,
        stages=stages_of(job.schedule, job.clock_mhz[number].tolist()),
    )


def _telemetry(job: MeasuredJob, number: int, digest: str) -> Telemetry:
    rows = [*_iteration_rows(job, number), *_op_rows(job, number)]
    columns = {name: [row.get(name) for row in rows] for name in ARROW_SCHEMA.names}
    metadata = TelemetryMetadata(
        plan_sha256=digest,
        profile_sha256=None,
        pipeline=job.pipeline,
        world_size=job.pipeline.stages,
        gpus=tuple(
            Gpu(rank=stage, stage=stage, mode=Mode.APPLY, name=job.gpu, uuid=f"{job.name}, stage {stage}")
            for stage in range(job.pipeline.stages)
        ),
        timer="cpu_clock",
    )
    return Telemetry(metadata=metadata, table=arrow_table(columns, ARROW_SCHEMA))


def _iteration_rows(job: MeasuredJob, number: int) -> Iterator[dict[str, Any]]:
    for row in job.iterations[number]:
        yield {
            "level": ITERATION,
            "rank": row["stage"],
            "stage": row["stage"],
            "iteration": row["iteration"],
            "alternative": 0,
            "time_s": row["time_s"],
            "energy_j": row["energy_j"],
        }


def _op_rows(job: MeasuredJob, number: int) -> Iterator[dict[str, Any]]:
    iteration = _typical_iteration(job.iterations[number])
    values = zip(job.schedule.ops, job.clock_mhz[number].tolist(), job.time_s[number].tolist(), strict=True)
    for op, clock, time_s in values:
        yield {
            "level": OP,
            "rank": op.stage,
            "stage": op.stage,
            "iteration": iteration,
            "alternative": 0,
            "op": str(op.kind),
            "chunk": 0,
            "microbatch": op.microbatch,
            "sm_clock_mhz": clock,
            "time_s": time_s,
        }


def _typical_iteration(rows: list[dict[str, Any]]) -> int:
    median_s = float(np.median([row["time_s"] for row in rows]))
    slow = {row["iteration"] for row in rows if row["time_s"] > STALL * median_s}
    return min(int(row["iteration"]) for row in rows if row["iteration"] not in slow)


def _made_up() -> MeasuredJob:
    """Twelve plans of the tiny profile, three iterations each, without noise; an iteration takes 50 ms more."""
    workload = tiny()
    schedule = workload.schedule(6)
    table = measured_options(workload.profile, {op.key for op in schedule.ops})
    clocks = [option.sm_clock_mhz for option in next(iter(table.values()))]
    clock_mhz = np.array([[clocks[-1 - _step(plan, op.key)] for op in schedule.ops] for plan in range(12)])
    options = [
        [
            next(one for one in table[op.key] if one.sm_clock_mhz == clock)
            for op, clock in zip(schedule.ops, row, strict=True)
        ]
        for row in clock_mhz.tolist()
    ]
    time_s = np.array([[one.time_s for one in row] for row in options])
    energy_j = np.array([[one.energy_j for one in row] for row in options])
    stage = np.array([op.stage for op in schedule.ops])
    rows: list[list[dict[str, Any]]] = []
    for plan in range(len(clock_mhz)):
        total_s = simulate(schedule, time_s[plan].tolist()).iteration_time_s + 0.05
        drawn = [
            float(energy_j[plan][stage == one].sum() + 60.0 * (total_s - time_s[plan][stage == one].sum()))
            for one in range(schedule.stages)
        ]
        rows.append(
            [
                {"stage": one, "iteration": iteration, "time_s": total_s, "energy_j": drawn[one]}
                for one in range(schedule.stages)
                for iteration in range(3)
            ]
        )
    return MeasuredJob(
        name="made up",
        gpu="made up",
        pipeline=workload.pipeline(6),
        schedule=schedule,
        clock_mhz=clock_mhz,
        time_s=time_s,
        iterations=rows,
    )


def _step(plan: int, key: OpKey) -> int:
    """How many steps below the highest clock a plan runs a key; plans 0 and 1 none."""
    return 0 if plan < 2 else (plan * (1 + key.stage) + (key.kind is OpKind.BACKWARD)) % 5
