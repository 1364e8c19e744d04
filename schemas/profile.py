"""profile.parquet: what each piece of work costs at each configuration.

The Arrow schema is explicit and every column is always present; absent is null. The file metadata holds,
under the key `energyopt`, a JSON object with the provenance.
"""

import hashlib
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from energyopt import __version__
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import compact_json, write_atomically
from energyopt.schemas.nodes import check_header
from energyopt.schemas.ops import OpKind
from energyopt.schemas.parquet import open_parquet
from energyopt.schemas.partition_order import order_to_json
from energyopt.schemas.profile_metadata import ProfileMetadata, metadata_from_json, metadata_to_json

FORMAT = "energyopt-profile"
SCHEMA_VERSION = 1

ARROW_SCHEMA = pa.schema(
    [
        pa.field("level", pa.string(), nullable=False),
        pa.field("stage", pa.int32()),
        pa.field("chunk", pa.int32()),
        pa.field("op", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("kernel", pa.string()),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("execution", pa.string()),
        pa.field("comm_launch", pa.string()),
        pa.field("comm_sms", pa.int32()),
        pa.field("nanobatches", pa.int32()),
        pa.field("sm_clock_mhz", pa.int32(), nullable=False),
        pa.field("achieved_sm_clock_mhz", pa.int32()),
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("time_std_s", pa.float64()),
        pa.field("energy_j", pa.float64(), nullable=False),
        pa.field("energy_std_j", pa.float64()),
        pa.field("samples", pa.int32()),
        pa.field("energy_source", pa.string(), nullable=False),
        pa.field("temperature_start_c", pa.float64()),
        pa.field("temperature_end_c", pa.float64()),
        pa.field("throttle", pa.int64()),
        pa.field("rank", pa.int32()),
        pa.field("invalid", pa.string()),
    ]
)


_LATER = ("nanobatches",)
"""Columns that earlier files lack."""


class Level(StrEnum):
    """What a row describes."""

    KERNEL = "kernel"
    PARTITION = "partition"
    OP = "op"


class EnergySource(StrEnum):
    """Where a row's energy comes from."""

    COUNTER = "counter"
    POWER_INTEGRAL = "power_integral"
    MODEL = "model"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One measured configuration; times and energies are per occurrence on one GPU.

    nanobatches: of a partition, the parts that its op's microbatch is cut into, of which this row is one; null
        where it runs alike however the microbatch is cut.
    """

    level: Level
    stage: int | None
    chunk: int | None
    op: OpKind
    partition: str | None = None
    kernel: str | None = None
    count: int = 1
    execution: str | None = None
    comm_launch: str | None = None
    comm_sms: int | None = None
    nanobatches: int | None = None
    sm_clock_mhz: int
    achieved_sm_clock_mhz: int | None = None
    time_s: float
    time_std_s: float | None = None
    energy_j: float
    energy_std_j: float | None = None
    samples: int | None = None
    energy_source: EnergySource
    temperature_start_c: float | None = None
    temperature_end_c: float | None = None
    throttle: int | None = None
    rank: int | None = None
    invalid: str | None = None


_VALUES = attrgetter(*(item.name for item in fields(ProfileRow)))
_NANOBATCHES = [item.name for item in fields(ProfileRow)].index("nanobatches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile in memory."""

    metadata: ProfileMetadata
    rows: tuple[ProfileRow, ...]

    def sha256(self) -> str:
        """A digest of what decides a plan: rows in canonical order and device, not who wrote it when."""
        meta = self.metadata
        head = [meta.device_name, meta.device_kind, meta.wait_power_w, meta.gpus_per_stage, meta.scope]
        head.append(meta.power_limit_w)
        head.append(dict(sorted(meta.workload.items())))
        if (meta.p2p_time_s, meta.fixed_time_s) != (None, None):
            head.append([meta.p2p_time_s, meta.fixed_time_s])
        if meta.partition_order:
            head.append(order_to_json(meta.partition_order))
        text = compact_json([head, [_digested(row) for row in sorted(self.rows, key=_sort_key)]])
        return hashlib.sha256(text.encode()).hexdigest()


def write_profile(path: Path, profile: Profile) -> None:
    """Write a profile atomically, rows in canonical order."""
    rows = sorted(profile.rows, key=_sort_key)
    columns = {name: [getattr(row, name) for row in rows] for name in ARROW_SCHEMA.names}
    table = arrow_table(columns, ARROW_SCHEMA)
    header = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "tool_version": __version__}
    metadata = compact_json(header | metadata_to_json(profile.metadata))
    table = table.replace_schema_metadata({"energyopt": metadata})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_profile(path: Path) -> Profile:
    """Read a profile and check every row.

    Raises:
        FileFormatError: not such a file, or a row that cannot be; names the column and the row.
    """
    table, header = open_parquet(path)
    check_header(header, FORMAT, SCHEMA_VERSION)
    for expected in ARROW_SCHEMA:
        index = table.schema.get_field_index(expected.name)
        if index < 0 and expected.name in _LATER:
            table = table.append_column(expected, pa.nulls(table.num_rows, expected.type))
            continue
        if index < 0:
            raise FileFormatError(f"{path}: column {expected.name!r} is missing")
        if table.schema.field(index).type != expected.type:
            found = table.schema.field(index).type
            raise FileFormatError(f"{path}: column {expected.name!r} holds {found}, expected {expected.type}")
    records = table.select(ARROW_SCHEMA.names).to_pylist()
    rows = tuple(_row(path, number, record) for number, record in enumerate(records))
    return Profile(metadata=metadata_from_json(header), rows=rows)


def check_measurement(time_s: float, energy_j: float, sm_clock_mhz: int) -> str | None:
    """What makes a measurement impossible, or None."""
    if not math.isfinite(time_s) or time_s <= 0:
        return f"time_s must be a positive number of seconds, not {time_s!r}"
    if not math.isfinite(energy_j) or energy_j <= 0:
        return f"energy_j must be a positive number of joules, not {energy_j!r}"
    if sm_clock_mhz <= 0:
        return f"sm_clock_mhz must be positive, not {sm_clock_mhz!r}"
    return None


def _row(path: Path, number: int, record: dict[str, Any]) -> ProfileRow:
    for name in ("level", "op", "count", "sm_clock_mhz", "time_s", "energy_j", "energy_source"):
        if record[name] is None:
            raise FileFormatError(f"{path}: column {name!r} is null in row {number}")
    for name, kind in (("level", Level), ("op", OpKind), ("energy_source", EnergySource)):
        if record[name] not in list(kind):
            known = ", ".join(kind)
            raise FileFormatError(f"{path}: {name} {record[name]!r} in row {number}; known are {known}")
        record[name] = kind(record[name])
    _check_numbers(path, number, record)
    _check_level(path, number, record)
    problem = check_measurement(record["time_s"], record["energy_j"], record["sm_clock_mhz"])
    if problem is None and record["count"] < 1:
        problem = f"count must be at least 1, not {record['count']}"
    if problem and record["invalid"] is None:
        raise FileFormatError(f"{path}: {problem} in row {number}")
    return ProfileRow(**record)


def _check_numbers(path: Path, number: int, record: dict[str, Any]) -> None:
    """Refuse stand-ins for "absent", which is null: NaN, infinity, and -1 where numbers count from zero."""
    for name, value in record.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FileFormatError(f"{path}: column {name!r} holds {value} in row {number}")
    for name in ("stage", "chunk", "comm_sms", "samples", "rank"):
        if record[name] is not None and record[name] < 0:
            raise FileFormatError(f"{path}: column {name!r} holds {record[name]} in row {number}")


def _check_level(path: Path, number: int, record: dict[str, Any]) -> None:
    """Refuse rows that do not say what they are of, and numbers that count from one."""
    level = record["level"]
    for name in {Level.PARTITION: ("partition",), Level.KERNEL: ("kernel",)}.get(level, ()):
        if not record[name]:
            raise FileFormatError(f"{path}: column {name!r} is empty in row {number}, which is of a {level}")
    for name in ("nanobatches", "comm_sms") if level is Level.PARTITION else ("nanobatches",):
        if record[name] is not None and record[name] < 1:
            raise FileFormatError(
                f"{path}: {name} must be at least 1 or absent, not {record[name]} in row {number}"
            )


def _digested(row: ProfileRow) -> list[Any]:
    """A row's values; columns that came later count where they hold something, so that digests stay."""
    values = list(_VALUES(row))
    return values if row.nanobatches is not None else values[:_NANOBATCHES] + values[_NANOBATCHES + 1 :]


def _sort_key(row: ProfileRow) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is not None, value) for value in _VALUES(row))
