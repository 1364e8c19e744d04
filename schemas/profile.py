"""profile.parquet: what each piece of work costs at each configuration.

The Arrow schema is explicit and every column is always present; absent is null. The file metadata holds,
under the key `energyopt`, a JSON object with the provenance.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
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
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.ops import OpKind
from energyopt.schemas.parquet import open_parquet

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


class DeviceKind(StrEnum):
    """What stood behind the measurement."""

    NVML = "nvml"
    SIMULATED = "simulated"
    IMPORTED = "imported"


class Scope(StrEnum):
    """What the power reading covers; numbers of different scope are never compared."""

    GPU_BOARD = "gpu_board"
    MODULE = "module"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One measured configuration; times and energies are per occurrence on one GPU."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMetadata:
    """Where a profile comes from.

    `gpus_per_stage` is the number of GPUs that one stage's rows stand for: totals multiply by it. `measurement`
    says how the numbers came about (energy source, ticks, windows); it decides no plan. `p2p_time_s` and
    `fixed_time_s` were fitted to training runs: what a transfer between two stages takes, and an iteration outside
    its operations; plans take them unless others are asked for.
    """

    device_name: str
    device_kind: DeviceKind
    wait_power_w: float
    gpus_per_stage: int = 1
    device_uuid: str | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    memory_clock_mhz: int | None = None
    scope: Scope = Scope.GPU_BOARD
    idle_power_w: float | None = None
    clock_switch_latency_s: float | None = None
    p2p_time_s: float | None = None
    fixed_time_s: float | None = None
    workload: dict[str, str | int | float] = field(default_factory=dict)
    measurement: dict[str, str | int | float] = field(default_factory=dict)
    source: str | None = None
    time: str | None = None
    host: str | None = None


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
        text = compact_json([head, [list(_VALUES(row)) for row in sorted(self.rows, key=_sort_key)]])
        return hashlib.sha256(text.encode()).hexdigest()


def write_profile(path: Path, profile: Profile) -> None:
    """Write a profile atomically, rows in canonical order."""
    rows = sorted(profile.rows, key=_sort_key)
    columns = {name: [getattr(row, name) for row in rows] for name in ARROW_SCHEMA.names}
    table = arrow_table(columns, ARROW_SCHEMA)
    header = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "tool_version": __version__}
    metadata = compact_json(header | _metadata_to_json(profile.metadata))
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
        if index < 0:
            raise FileFormatError(f"{path}: column {expected.name!r} is missing")
        if table.schema.field(index).type != expected.type:
            found = table.schema.field(index).type
            raise FileFormatError(f"{path}: column {expected.name!r} holds {found}, expected {expected.type}")
    records = table.select(ARROW_SCHEMA.names).to_pylist()
    rows = tuple(_row(path, number, record) for number, record in enumerate(records))
    return Profile(metadata=_metadata_from_json(header), rows=rows)


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


def _sort_key(row: ProfileRow) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is not None, value) for value in _VALUES(row))


def _metadata_to_json(metadata: ProfileMetadata) -> dict[str, Any]:
    return {item.name: getattr(metadata, item.name) for item in fields(metadata)}


def _metadata_from_json(header: Node) -> ProfileMetadata:
    def text(name: str) -> str | None:
        node = header.optional(name)
        return None if node is None else node.text()

    def number(name: str) -> float | None:
        node = header.optional(name)
        return None if node is None else node.number(minimum=0.0)

    memory_clock = header.optional("memory_clock_mhz")
    gpus = header.optional("gpus_per_stage")
    return ProfileMetadata(
        device_name=header.field("device_name").text(),
        device_kind=DeviceKind(_one_of(header.field("device_kind"), DeviceKind)),
        wait_power_w=header.field("wait_power_w").number(minimum=0.0),
        gpus_per_stage=1 if gpus is None else gpus.integer(minimum=1),
        device_uuid=text("device_uuid"),
        driver=text("driver"),
        power_limit_w=number("power_limit_w"),
        memory_clock_mhz=None if memory_clock is None else memory_clock.integer(minimum=0),
        scope=Scope(_one_of(header.field("scope"), Scope)),
        idle_power_w=number("idle_power_w"),
        clock_switch_latency_s=number("clock_switch_latency_s"),
        p2p_time_s=number("p2p_time_s"),
        fixed_time_s=number("fixed_time_s"),
        workload=_named_values(header, "workload"),
        measurement=_named_values(header, "measurement"),
        source=text("source"),
        time=text("time"),
        host=text("host"),
    )


def _named_values(header: Node, name: str) -> dict[str, str | int | float]:
    node = header.optional(name)
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        node.fail("expected an object")
    return {key: _setting(node.field(key)) for key in node.value if node.value[key] is not None}


def _setting(node: Node) -> str | int | float:
    if isinstance(node.value, str):
        return node.value
    return node.integer() if isinstance(node.value, int) else node.number()


def _one_of(node: Node, kinds: Iterable[StrEnum]) -> str:
    known: Sequence[str] = list(kinds)
    if node.text() not in known:
        node.fail(f"{node.text()!r} is none of {', '.join(known)}")
    return node.text()
