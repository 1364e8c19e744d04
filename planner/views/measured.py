"""What a profile run has measured, op by op, with its error bars."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from energyopt.planner.tables import Table
from energyopt.planner.views.partitions import gain_table, gain_to_json, gains
from energyopt.planner.wording import MISSING, device, gpus, percent
from energyopt.schemas.intervals import half_width
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile_metadata import metadata_to_json

if TYPE_CHECKING:
    from energyopt.schemas.profile import Profile, ProfileRow

_COLUMNS = (
    "op",
    "stage",
    "clocks",
    "top MHz",
    "held MHz",
    "time s",
    "+-",
    "energy J",
    "+-",
    "least J",
    "its MHz",
    "its time s",
)

_HELD = 0.98


def measured_tables(profile: "Profile") -> tuple[Table, ...]:
    """The ops and, where partitions were measured overlapped, what that brings each: not every configuration."""
    overlap = gain_table(profile)
    return (measured_table(profile), *(() if overlap is None else (overlap,)))


def measured_table(profile: "Profile") -> Table:
    """One line per op: at its highest clock and where its energy is least, with 95 % intervals."""
    meta = profile.metadata
    lines = tuple(_line(rows) for rows in _usable_ops(profile))
    share = "1 GPU" if meta.gpus_per_stage == 1 else f"1 of the {gpus(meta.gpus_per_stage)} of a stage"
    title = (
        f"{meta.source or 'profile'}{_shape(profile)} on {device(meta.device_name, meta.device_kind)}, "
        f"per op on {share}, {meta.scope}; wait power {meta.wait_power_w:.1f} W; +- is half the 95 % interval"
    )
    return Table(title=title, columns=_COLUMNS, rows=lines)


def measured_to_json(profile: "Profile") -> dict[str, Any]:
    """The same as one JSON object, with every op at every clock."""
    overlap = [gain_to_json(one) for one in gains(profile)]
    return {
        "profile_sha256": profile.sha256(),
        "metadata": metadata_to_json(profile.metadata),
        "rows": len(profile.rows),
        "invalid_rows": sum(row.invalid is not None for row in profile.rows),
        "ops": [_to_json(row) for rows in _usable_ops(profile) for row in rows],
        **({"partitions": overlap} if overlap else {}),
    }


def _shape(profile: "Profile") -> str:
    """What one microbatch is, in brackets; nothing where the profile does not say."""
    settings = profile.metadata.workload
    sequences, tokens, dtype = (
        settings.get(name) for name in ("microbatch_size", "sequence_length", "dtype")
    )
    if sequences is None or tokens is None:
        return ""
    return f" (microbatch of {sequences} x {tokens} tokens{'' if dtype is None else f', {dtype}'})"


def not_held(profile: "Profile") -> str | None:
    """At which clocks ops ran below what was asked for; None where all were held."""
    rows = [row for rows in _usable_ops(profile) for row in rows]
    asked = {row.sm_clock_mhz for row in rows}
    held = {
        one: [row.achieved_sm_clock_mhz or one for row in rows if row.sm_clock_mhz == one] for one in asked
    }
    slow = [one for one in asked if min(held[one]) < _HELD * one]
    if not slow:
        return None
    return (
        f"the board did not hold {len(slow)} of {len(asked)} clocks ({min(slow)} to {max(slow)} MHz), most likely "
        "for its power limit: these are nearly the same point, and what a job at the highest clock really gets"
    )


def unusable(profile: "Profile") -> str | None:
    """How many rows must not be used, and why most of them; None where all may."""
    reasons = Counter(row.invalid for row in profile.rows if row.invalid is not None)
    if not reasons:
        return None
    reason, _ = reasons.most_common(1)[0]
    return (
        f"{reasons.total()} of {len(profile.rows)} rows must not be used, the most of them because: {reason}"
    )


def _usable_ops(profile: "Profile") -> list[list["ProfileRow"]]:
    """The usable rows of each op, highest clock first."""
    found: dict[tuple[str, int, int], list[ProfileRow]] = {}
    for row in sorted(profile.rows, key=lambda one: -one.sm_clock_mhz):
        if row.level == "op" and row.invalid is None:
            stage, chunk = (-1 if one is None else one for one in (row.stage, row.chunk))
            found.setdefault((row.op, stage, chunk), []).append(row)
    return [rows for _, rows in sorted(found.items(), key=lambda item: _place(*item[0]))]


def _place(op: str, stage: int, chunk: int) -> tuple[int, int, int]:
    return stage, chunk, list(OpKind).index(OpKind(op))


def _line(rows: Sequence["ProfileRow"]) -> tuple[str, ...]:
    top, least = rows[0], min(rows, key=lambda row: row.energy_j)
    chunk = f", chunk {top.chunk}" if top.chunk else ""
    return (
        str(top.op),
        ("all" if top.stage is None else str(top.stage)) + chunk,
        str(len(rows)),
        str(top.sm_clock_mhz),
        MISSING if top.achieved_sm_clock_mhz is None else str(top.achieved_sm_clock_mhz),
        f"{top.time_s:.5g}",
        _relative(half_width(top.time_std_s, top.samples), top.time_s),
        f"{top.energy_j:.5g}",
        _relative(half_width(top.energy_std_j, top.samples), top.energy_j),
        f"{least.energy_j:.5g}",
        str(least.sm_clock_mhz),
        f"{least.time_s:.5g}",
    )


def _relative(half: float | None, mean: float) -> str:
    return MISSING if half is None else percent(half / mean)


def _to_json(row: "ProfileRow") -> dict[str, Any]:
    return {
        "op": str(row.op),
        "stage": row.stage,
        "chunk": row.chunk,
        "sm_clock_mhz": row.sm_clock_mhz,
        "achieved_sm_clock_mhz": row.achieved_sm_clock_mhz,
        "time_s": row.time_s,
        "time_half_width_s": half_width(row.time_std_s, row.samples),
        "energy_j": row.energy_j,
        "energy_half_width_j": half_width(row.energy_std_j, row.samples),
        "samples": row.samples,
    }
