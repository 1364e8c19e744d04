"""What a run, or one alternative in it, tells: G replicas, n operations as in `Schedule.ops`, S stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.calibration.replicas import Replicas, read_replicas
from energyopt.planner.verification.notes import clock_notes
from energyopt.planner.verification.operations import chosen_ops, op_rows
from energyopt.planner.verification.runs import MIXED, NONE_RUN, Recorded, Run, read_run
from energyopt.planner.verification.scope import run_notes, scope_lines
from energyopt.planner.verification.statistics import FEWEST_FOR_CORRELATION, Estimate, estimate
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.ops import OpKey, Schedule

_KEY = ("rank", "stage", "chunk", "op", "microbatch", "sm_clock_mhz")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One way of running the job, over the iterations that did not stall.

    clock_mhz: asked for, or where nothing was set the median that the operations of the same key ran at; seen_mhz:
        mean seen, NaN where nothing was; throttle: the reasons' bits. op_time_s: mean of the slowest of the
        ranks that share the operation. stage_energy_j: of one GPU, the mean over the stage's boards, NaN where none
        gave a reading; stage_time_s: of the iteration as that stage saw it.
    """

    name: str
    time: Estimate
    clock_mhz: Ints  # [G, n]
    seen_mhz: Floats  # [G, n]
    throttle: Ints  # [G, n]
    op_time_s: Floats  # [G, n]
    stage_time_s: Floats  # [S]
    stage_energy_j: Floats  # [S]

    @property
    def weight(self) -> float:
        """How much the sample counts: rises with its iterations, up to 1.

        Runs differ from each other, too: taken is, by about as much as the mean of eight iterations is uncertain.
        """
        return self.time.iterations / (self.time.iterations + FEWEST_FOR_CORRELATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The samples of a run: one for each alternative that it ran, and one for iterations without a plan."""

    found: tuple[Sample, ...]
    scope: str
    notes: tuple[str, ...]


def read_samples(recorded: Recorded, schedule: Schedule, skip: int = 0) -> Samples:
    """What a run tells, and what it covers.

    Raises:
        NotComparableError: in no iteration all ranks did the same; operations of the schedule are not recorded,
            took no time, or have no clock.
    """
    telemetry, file = recorded.telemetry, recorded.file
    replicas = read_replicas(telemetry)
    run = read_run(telemetry, file, skip, mute=replicas.left_out)
    alternatives = sorted(set(run.alternative.tolist()) - {MIXED})
    if not alternatives:
        raise NotComparableError(
            f"{file}: in each of its {len(run.numbers)} iterations ranks ran different alternatives of the plan"
        )
    found, notes = [], list(run_notes(run))
    if replicas.left_out:
        notes.append(
            f"{len(replicas.left_out)} ranks that only observed are left out: their peers set clocks"
        )
    for alternative in alternatives:
        kept = run.typical(run.of(alternative))
        name = file if alternative in (0, NONE_RUN) else f"{file}, alternative {alternative}"
        ops = _without(chosen_ops(telemetry, run.numbers[kept]), replicas)
        notes += clock_notes(op_rows(ops, None))
        found.append(_sample(run, kept, ops, schedule, replicas, name))
    return Samples(
        found=tuple(found),
        scope=f"{file}: {'; '.join(scope_lines(run, skip))}",
        notes=tuple(f"{file}: {note}" for note in notes),
    )


def _without(ops: pa.Table, replicas: Replicas) -> pa.Table:
    """The operations of the ranks that count, sorted: sums in another order differ in their last digits."""
    left_out = pa.array(sorted(replicas.left_out), pa.int32())
    ops = ops.filter(pc.invert(pc.is_in(ops["rank"], value_set=left_out)))
    return ops.sort_by([(name, "ascending") for name in (*_KEY, "iteration")])


def _sample(
    run: Run, kept: Flags, ops: pa.Table, schedule: Schedule, replicas: Replicas, name: str
) -> Sample:
    time = estimate(run.time_s[kept])
    assert time is not None
    cells = _Cells(schedule, replicas, ops, name)
    boards = np.array([one or np.nan for one in run.boards], dtype=np.float64)
    return Sample(
        name=name,
        time=time,
        clock_mhz=cells.clock_mhz,
        seen_mhz=cells.seen,
        throttle=cells.throttle,
        op_time_s=cells.time_s,
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


class _Cells:
    """Each operation of each replica: the slowest rank's time, its clocks, the reasons that held it back."""

    def __init__(self, schedule: Schedule, replicas: Replicas, rows: pa.Table, name: str) -> None:
        self.schedule, self.name = schedule, name
        self.index = {
            (op.stage, op.chunk, str(op.kind), op.microbatch): number
            for number, op in enumerate(schedule.ops)
        }
        shape = (replicas.count, len(self.index))
        self.time_s, self.asked, self.seen = (np.full(shape, np.nan) for _ in range(3))
        self.throttle = np.zeros(shape, dtype=np.int64)
        self._fill(rows, replicas)
        self._check_times()
        self.clock_mhz = self._clocks()

    def _fill(self, rows: pa.Table, replicas: Replicas) -> None:
        means = [("time_s", "mean"), ("achieved_sm_clock_mhz", "mean")]
        places = [*_KEY, "throttle"]
        for row in rows.group_by(places, use_threads=False).aggregate([]).to_pylist():
            if (cell := self._cell(row, replicas)) is not None:
                self.throttle[cell] |= row["throttle"] or 0
        for row in rows.group_by([*_KEY], use_threads=False).aggregate(means).to_pylist():
            if (cell := self._cell(row, replicas)) is None:
                continue
            self.time_s[cell] = np.fmax(self.time_s[cell], row["time_s_mean"])
            self.asked[cell] = np.fmax(self.asked[cell], _number(row["sm_clock_mhz"]))
            self.seen[cell] = np.fmax(self.seen[cell], _number(row["achieved_sm_clock_mhz_mean"]))

    def _cell(self, row: dict[str, Any], replicas: Replicas) -> tuple[int, int] | None:
        """Where a row belongs; None for work outside the pipeline, such as the optimizer."""
        place = self.index.get((row["stage"], row["chunk"] or 0, row["op"], row["microbatch"]))
        return None if place is None else (replicas.of_rank[row["rank"]], place)

    def _check_times(self) -> None:
        for wrong, what in ((np.isnan(self.time_s), "are not recorded"), (self.time_s <= 0, "took no time")):
            missing = np.flatnonzero(wrong.any(axis=0))
            if len(missing):
                raise NotComparableError(
                    f"{self.name}: {len(missing)} of {len(self.index)} operations of schedule "
                    f"{self.schedule.name} {what}, first the {self.schedule.ops[missing[0]]}"
                )

    def _clocks(self) -> Ints:
        keys = [op.key for op in self.schedule.ops]
        usual = np.array([_medians(keys, seen) for seen in self.seen])
        found = np.where(np.isnan(self.asked), usual, self.asked)
        if np.isnan(found).any():
            raise NotComparableError(
                f"{self.name}: {int(np.isnan(found).any(axis=0).sum())} operations have neither a clock that was "
                "asked for nor one that was seen; run with a GPU whose clock can be read"
            )
        return np.asarray(np.rint(found), dtype=np.int64)


def _medians(keys: Sequence[OpKey], seen: Floats) -> list[float]:
    by_key: dict[OpKey, list[float]] = {}
    for key, clock in zip(keys, seen.tolist(), strict=True):
        by_key.setdefault(key, []).append(clock)
    medians = {key: float(np.median(clocks)) for key, clocks in by_key.items()}
    return [medians[key] for key in keys]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
