"""What one run, or one alternative of a plan within it, tells: n operations as in `Schedule.ops`, S stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.verification.runs import MIXED, NONE_RUN, Run, read_run
from energyopt.planner.verification.statistics import Estimate, estimate
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.ops import OpKey, Schedule
from energyopt.schemas.telemetry import Telemetry

_KEY = ("rank", "stage", "chunk", "op", "microbatch", "sm_clock_mhz")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One way of running the job, over the iterations that did not stall.

    clock_mhz: asked for, or where nothing was set the median that the operations of the same key ran at.
    op_time_s: mean of the stage's slowest rank. stage_energy_j: of one GPU, the mean over the stage's boards, NaN
        where none gave a reading; stage_time_s: of the iteration as that stage saw it.
    """

    name: str
    time: Estimate
    clock_mhz: Ints  # [n]
    op_time_s: Floats  # [n]
    stage_time_s: Floats  # [S]
    stage_energy_j: Floats  # [S]


def read_samples(telemetry: Telemetry, file: str, schedule: Schedule, skip: int = 0) -> list[Sample]:
    """The samples of a run: one for each alternative that it ran, and one for iterations without a plan.

    Raises:
        NotComparableError: operations of the schedule are not recorded, or have no clock.
    """
    run = read_run(telemetry, file, skip)
    found = []
    for alternative in sorted(set(run.alternative.tolist()) - {MIXED}):
        kept = run.typical(run.of(alternative))
        name = file if alternative in (0, NONE_RUN) else f"{file}, alternative {alternative}"
        found.append(_sample(run, kept, telemetry.ops, schedule, name))
    return found


def _sample(run: Run, kept: Flags, ops: pa.Table, schedule: Schedule, name: str) -> Sample:
    time = estimate(run.time_s[kept])
    assert time is not None
    chosen = ops.filter(
        pc.is_in(ops["iteration"], value_set=pa.array(run.numbers[kept].tolist(), pa.int64()))
    )
    clock_mhz, op_time_s = _ops(chosen, schedule, name)
    boards = np.array([one or np.nan for one in run.boards], dtype=np.float64)
    return Sample(
        name=name,
        time=time,
        clock_mhz=clock_mhz,
        op_time_s=op_time_s,
        stage_time_s=run.stage_time_s[kept].mean(axis=0),
        stage_energy_j=_mean_of_readings(run.stage_energy_j[kept]) / boards,
    )


def _mean_of_readings(values: Floats) -> Floats:
    """Column means over what is there; NaN where nothing is."""
    there = np.isfinite(values)
    total = np.where(there, values, 0.0).sum(axis=0)
    return np.asarray(
        np.divide(total, there.sum(axis=0), out=np.full(len(total), np.nan), where=there.any(axis=0))
    )


def _ops(rows: pa.Table, schedule: Schedule, name: str) -> tuple[Ints, Floats]:
    """Clock and time of each operation of the schedule."""
    index = {
        (op.stage, op.chunk, str(op.kind), op.microbatch): number for number, op in enumerate(schedule.ops)
    }
    means = rows.group_by([*_KEY], use_threads=False).aggregate(
        [("time_s", "mean"), ("achieved_sm_clock_mhz", "mean")]
    )
    time_s, asked, seen = (np.full(len(index), np.nan) for _ in range(3))
    for row in means.to_pylist():
        place = index.get((row["stage"], row["chunk"] or 0, row["op"], row["microbatch"]))
        if place is None:  # work outside the pipeline, such as the optimizer
            continue
        time_s[place] = np.fmax(time_s[place], row["time_s_mean"])
        asked[place] = np.fmax(asked[place], _number(row["sm_clock_mhz"]))
        seen[place] = np.fmax(seen[place], _number(row["achieved_sm_clock_mhz_mean"]))
    missing = np.flatnonzero(np.isnan(time_s))
    if len(missing):
        raise NotComparableError(
            f"{name}: {len(missing)} of {len(index)} operations of schedule {schedule.name} are not recorded, "
            f"first the {schedule.ops[missing[0]]}"
        )
    return _clocks(schedule, asked, seen, name), time_s


def _clocks(schedule: Schedule, asked: Floats, seen: Floats, name: str) -> Ints:
    keys = [op.key for op in schedule.ops]
    usual = _medians(keys, seen)
    found = np.where(np.isnan(asked), [usual[key] for key in keys], asked)
    if np.isnan(found).any():
        raise NotComparableError(
            f"{name}: {int(np.isnan(found).sum())} operations have neither a clock that was asked for nor one that "
            "was seen; run with a GPU whose clock can be read"
        )
    return np.asarray(np.rint(found), dtype=np.int64)


def _medians(keys: Sequence[OpKey], seen: Floats) -> dict[OpKey, float]:
    by_key: dict[OpKey, list[float]] = {}
    for key, clock in zip(keys, seen.tolist(), strict=True):
        by_key.setdefault(key, []).append(clock)
    return {key: float(np.median(clocks)) for key, clocks in by_key.items()}


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
