"""A profile as tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from energyopt.planner.tables import Table
from energyopt.planner.views.partitions import has_configurations, partition_table
from energyopt.planner.wording import MISSING

if TYPE_CHECKING:
    from energyopt.schemas.profile import Profile, ProfileRow


def profile_tables(profile: "Profile") -> tuple[Table, ...]:
    """Provenance, rows per level, what each operation costs on one GPU, and the invalid rows.

    Partitions have a table of their own where they were measured in several ways.
    """
    tables = [_provenance(profile), _levels(profile), _costs(profile)]
    if has_configurations(profile):
        tables.append(partition_table(profile))
    if any(row.invalid is not None for row in profile.rows):
        tables.append(_invalid(profile))
    return tuple(tables)


def _provenance(profile: "Profile") -> Table:
    meta = profile.metadata
    rows = [
        (item.name, _value(getattr(meta, item.name)))
        for item in fields(meta)
        if item.name not in ("workload", "measurement", "partition_order")
    ]
    rows += [(f"workload {name}", _value(value)) for name, value in sorted(meta.workload.items())]
    rows += [(f"measurement {name}", _value(value)) for name, value in sorted(meta.measurement.items())]
    rows.append(("sha256", profile.sha256()))
    return Table(title="profile", columns=("", "value"), rows=tuple(rows))


def _value(value: object) -> str:
    """A value of the metadata; measured ones to six digits, which is more than anybody can measure."""
    if value is None:
        return MISSING
    return min(str(value), f"{value:.6g}", key=len) if isinstance(value, float) else str(value)


def _levels(profile: "Profile") -> Table:
    usable = Counter(row.level for row in profile.rows if row.invalid is None)
    invalid = Counter(row.level for row in profile.rows if row.invalid is not None)
    levels = sorted(usable.keys() | invalid.keys())
    rows = tuple((str(level), str(usable[level]), str(invalid[level])) for level in levels)
    return Table(title="rows", columns=("level", "usable", "invalid"), rows=rows)


def _costs(profile: "Profile") -> Table:
    """One line per thing measured; a line's clocks, times and energies come from its usable rows alone."""
    found: dict[tuple[str, ...], list[ProfileRow]] = {}
    elsewhere = has_configurations(profile)
    for row in profile.rows:
        if row.invalid is None and not (elsewhere and row.level == "partition"):
            found.setdefault(_subject(row), []).append(row)
    columns = (
        "level",
        "stage",
        "chunk",
        "op",
        "partition",
        "kernel",
        "rows",
        "clocks",
        "lowest MHz",
        "highest MHz",
        "fastest s",
        "slowest s",
        "energy at top clock J",
        "lowest energy J",
    )
    rows = tuple((*subject, *_cost(rows)) for subject, rows in sorted(found.items(), key=_place))
    return Table(title="cost per occurrence (1 GPU)", columns=columns, rows=rows)


def _subject(row: "ProfileRow") -> tuple[str, ...]:
    stage = "all" if row.stage is None else str(row.stage)
    chunk = "all" if row.chunk is None else str(row.chunk)
    return str(row.level), stage, chunk, str(row.op), row.partition or MISSING, row.kernel or MISSING


def _place(item: tuple[tuple[str, ...], list["ProfileRow"]]) -> tuple[str, int, int, tuple[str, ...]]:
    row = item[1][0]
    stage, chunk = (-1 if value is None else value for value in (row.stage, row.chunk))
    return str(row.level), stage, chunk, item[0]


def _cost(rows: Sequence["ProfileRow"]) -> tuple[str, ...]:
    clocks = sorted({row.sm_clock_mhz for row in rows})
    at_top = min(row.energy_j for row in rows if row.sm_clock_mhz == clocks[-1])
    return (
        str(len(rows)),
        str(len(clocks)),
        str(clocks[0]),
        str(clocks[-1]),
        _significant(min(row.time_s for row in rows)),
        _significant(max(row.time_s for row in rows)),
        _significant(at_top),
        _significant(min(row.energy_j for row in rows)),
    )


def _significant(value: float) -> str:
    """Five significant digits: kernels take microseconds, operations seconds."""
    return f"{value:.5g}"


def _invalid(profile: "Profile") -> Table:
    columns = ("level", "stage", "op", "sm_clock_mhz", "why it must not be used")
    rows = tuple(
        (_subject(row)[0], _subject(row)[1], str(row.op), str(row.sm_clock_mhz), row.invalid)
        for row in profile.rows
        if row.invalid is not None
    )
    return Table(title="invalid rows", columns=columns, rows=rows)
