"""What operations took by (stage, chunk, kind, clock), on each stage's slowest rank, beside what a profile says."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from energyopt.planner.arrays import Ints
from energyopt.planner.options import measured_options
from energyopt.planner.verification.judging import compare
from energyopt.planner.verification.prediction import option_at
from energyopt.planner.verification.records import OpRow, WorkRow
from energyopt.planner.verification.statistics import estimate
from energyopt.planner.verification.throttling import throttle_names
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import Profile
from energyopt.schemas.telemetry import OP, Telemetry

_KEY = ("stage", "chunk", "op", "sm_clock_mhz")
_READ = ("rank", "iteration", "microbatch", "time_s", "achieved_sm_clock_mhz", "throttle")
_Key = tuple[Any, ...]

Planned = Mapping[tuple[OpKey, int], float | None]
"""By key and clock, s; None where the profile does not tell."""


def chosen_ops(telemetry: Telemetry, numbers: Ints) -> pa.Table:
    """The operations of some iterations, with the columns that tell of them."""
    rows = telemetry.table.select([*_KEY, *_READ, "level"])
    chosen = pc.equal(rows["level"], OP)
    if len(numbers) < len(pc.unique(rows["iteration"])):
        chosen = pc.and_(chosen, pc.is_in(rows["iteration"], value_set=pa.array(numbers)))
    return rows.filter(chosen)


def op_rows(ops: pa.Table, profile: Profile | None, planned: Planned | None = None) -> tuple[OpRow, ...]:
    """One row per (stage, chunk, kind, clock), by rising key; predicted where the profile has the operation.

    planned: what a plan's operations take by the profile; others are taken to be plain.
    """
    # sorted first: sums in another order differ in their last digits
    ops = ops.sort_by([(name, "ascending") for name in (*_KEY, "rank", "iteration", "microbatch")])
    each = ops.group_by([*_KEY, "rank", "iteration"], use_threads=False).aggregate(
        [("time_s", "mean"), ("time_s", "count"), ("achieved_sm_clock_mhz", "mean")]
    )
    reasons = _reasons(ops)
    return tuple(
        _row(key, part, _predicted_s(key, profile, planned or {}), reasons.get(key, 0))
        for key, part in sorted(_by_key(each).items(), key=_place)
    )


def work_rows(rows: Sequence[OpRow], ops: pa.Table) -> tuple[WorkRow, ...]:
    """Each stage's operations in one recorded iteration, summed over those that have a prediction."""
    iterations = len(pc.unique(ops["iteration"]))
    pairs = ops.group_by(["stage", "rank"], use_threads=False).aggregate([])["stage"].to_pylist()
    found: dict[int, tuple[float, float]] = {}
    for row in rows:
        if row.time.predicted is None or row.time.measured is None:
            continue
        often = row.ops / iterations / pairs.count(row.stage)
        measured_s, predicted_s = found.get(row.stage, (0.0, 0.0))
        measured_s, predicted_s = (
            measured_s + often * row.time.measured.mean,
            predicted_s + often * row.time.predicted,
        )
        found[row.stage] = (measured_s, predicted_s)
    return tuple(
        WorkRow(stage=stage, measured_s=one, predicted_s=other)
        for stage, (one, other) in sorted(found.items())
    )


def _by_key(each: pa.Table) -> dict[_Key, dict[str, np.ndarray[Any, Any]]]:
    """The rows of each key, ordered by rank and iteration."""
    each = each.sort_by([(name, "ascending") for name in (*_KEY, "rank", "iteration")])
    changes = [np.diff(_codes(each[name])) != 0 for name in _KEY]
    starts = np.flatnonzero(np.concatenate([[len(each) > 0], np.any(changes, axis=0)]))
    ends = [*starts[1:].tolist(), len(each)]
    firsts = each.take(pa.array(starts))
    keys = list(zip(*(firsts[name].to_pylist() for name in _KEY), strict=True))
    names = ("rank", "time_s_mean", "time_s_count", "achieved_sm_clock_mhz_mean")
    columns = {name: each[name].to_numpy() for name in names}
    return {
        key: {name: column[start:end] for name, column in columns.items()}
        for key, start, end in zip(keys, starts.tolist(), ends, strict=True)
    }


def _codes(column: pa.ChunkedArray) -> Ints:
    """A column as numbers that differ where its values do."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def _row(key: _Key, part: dict[str, np.ndarray[Any, Any]], predicted_s: float | None, bits: int) -> OpRow:
    stage, chunk, op, clock = key
    by_rank = [part["time_s_mean"][part["rank"] == rank] for rank in np.unique(part["rank"])]
    slowest = max(by_rank, key=lambda times: float(times.mean()))
    seen = part["achieved_sm_clock_mhz_mean"]
    seen = seen[np.isfinite(seen)]
    return OpRow(
        stage=stage,
        chunk=chunk or 0,
        op=OpKind(op),
        sm_clock_mhz=clock,
        ops=int(part["time_s_count"].sum()),
        time=compare(predicted_s, estimate(slowest)),
        achieved_sm_clock_mhz=float(seen.mean()) if len(seen) else None,
        throttle=throttle_names(bits),
    )


def _predicted_s(place: _Key, profile: Profile | None, planned: Planned) -> float | None:
    stage, chunk, op, clock = place
    key = OpKey(stage, chunk or 0, OpKind(op))
    if profile is None or clock is None:
        return None
    if (key, clock) in planned:
        return planned[key, clock]
    try:
        options = measured_options(profile, {key})[key]
    except ProfileError:  # an operation outside the pipeline, such as the optimizer
        return None
    return option_at(options, clock).time_s


def _reasons(ops: pa.Table) -> dict[_Key, int]:
    """The throttle bits of each key, joined."""
    pairs = ops.group_by([*_KEY, "throttle"], use_threads=False).aggregate([]).to_pydict()
    found: dict[_Key, int] = {}
    for *key, bits in zip(*(pairs[name] for name in (*_KEY, "throttle")), strict=True):
        found[tuple(key)] = found.get(tuple(key), 0) | (bits or 0)
    return found


def _place(item: tuple[_Key, Any]) -> tuple[int, int, int, int]:
    stage, chunk, op, clock = item[0]
    return stage, chunk or 0, list(OpKind).index(OpKind(op)), clock or 0
