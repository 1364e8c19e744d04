"""telemetry.parquet: what a training run did, per operation, and per iteration and GPU.

One table with two levels. A row of level `iteration` is one iteration on one rank's GPU; a row of level `op` is one
operation in it. Rows stand in no particular order. The Arrow schema is explicit and absent is null, never 0. The
file's metadata holds, under the key `energyopt`, what was run and on which GPUs.
"""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from energyopt import __version__
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import compact_json, write_atomically
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.ops import OpKind
from energyopt.schemas.parquet import open_parquet
from energyopt.schemas.pipeline import Pipeline, pipeline_from_json

FORMAT = "energyopt-telemetry"
SCHEMA_VERSION = 1
OP, ITERATION = "op", "iteration"

ARROW_SCHEMA = pa.schema(
    [
        pa.field("level", pa.string(), nullable=False),  # op or iteration
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("stage", pa.int32(), nullable=False),
        pa.field("iteration", pa.int64(), nullable=False),  # from 0, as the run counts them
        pa.field(
            "alternative", pa.int32()
        ),  # 0: the plan itself, k: its k-th alternative; null: none was run
        pa.field("op", pa.string()),  # from here on null for iterations ...
        pa.field("chunk", pa.int32()),
        pa.field("microbatch", pa.int32()),
        pa.field("backward_chunk", pa.int32()),
        pa.field("backward_microbatch", pa.int32()),
        pa.field("start_s", pa.float64()),  # since the iteration's start
        pa.field("sm_clock_mhz", pa.int32()),  # asked for; null where nothing was set
        pa.field("achieved_sm_clock_mhz", pa.int32()),  # median seen; of the whole iteration for iterations
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("throttle", pa.int64()),  # reason bits seen
        pa.field("energy_j", pa.float64()),  # ... and from here on null for ops: of this GPU
        pa.field("clock_sets", pa.int32()),  # how often the driver was told
        pa.field("dropped_requests", pa.int32()),  # overtaken by a newer one before they were told
        pa.field("overhead_s", pa.float64()),  # spent in the shim by the training thread
        pa.field("helper_cpu_s", pa.float64()),  # processor time of the process that sets clocks
    ]
)

_NOT_NEGATIVE = ("rank", "stage", "iteration", "time_s", "energy_j", "chunk", "microbatch", "clock_sets")


class Mode(StrEnum):
    """What the shim did."""

    APPLY = "apply"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One rank's GPU. `mode` is what that rank did.

    uuid, scope: null where energy and clocks could not be read: such a rank's energy is of nothing at all.
    """

    rank: int
    stage: int
    mode: Mode
    name: str | None = None
    uuid: str | None = None
    host: str | None = None
    scope: str | None = "gpu_board"
    energy_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryMetadata:
    """What was run.

    plan_sha256: digest of the plan file's content; null where none was loaded.
    timer: `cuda_events` or `cpu_clock`, where operations' times come from.
    sampled_every: every how many iterations was recorded.
    reports: what the shim had to say, each once, with the rank.
    """

    plan_sha256: str | None
    profile_sha256: str | None
    pipeline: Pipeline
    world_size: int
    gpus: tuple[Gpu, ...]
    timer: str
    sampled_every: int = 1
    framework: str | None = None
    reports: tuple[str, ...] = ()
    time: str | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the energies cover, sorted; ranks without a board say nothing of it."""
        return tuple(sorted({gpu.scope for gpu in self.gpus if gpu.scope is not None}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """A run in memory; `table` follows `ARROW_SCHEMA`."""

    metadata: TelemetryMetadata
    table: pa.Table

    @property
    def ops(self) -> pa.Table:
        """The rows of level `op`."""
        return self.table.filter(pc.equal(self.table["level"], OP))

    @property
    def iterations(self) -> pa.Table:
        """The rows of level `iteration`."""
        return self.table.filter(pc.equal(self.table["level"], ITERATION))


def write_telemetry(path: Path, telemetry: Telemetry) -> None:
    """Write a run atomically."""
    table = telemetry.table.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)
    table = table.replace_schema_metadata({"energyopt": compact_json(_to_json(telemetry.metadata))})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_telemetry(path: Path) -> Telemetry:
    """Read a run and check every column.

    Raises:
        FileFormatError: not such a file, or a value that cannot be; names the column and the row.
    """
    table, header = open_parquet(path)
    check_header(header, FORMAT, SCHEMA_VERSION)
    for expected in ARROW_SCHEMA:
        index = table.schema.get_field_index(expected.name)
        if index < 0 or table.schema.field(index).type != expected.type:
            raise FileFormatError(f"{path}: column {expected.name!r} is missing or not {expected.type}")
    table = table.select(ARROW_SCHEMA.names).replace_schema_metadata(None)
    _check_values(path, table)
    gpus = tuple(_gpu(node) for node in header.field("gpus").items())
    reports = tuple(node.text() for node in header.field("reports").items())
    return Telemetry(metadata=metadata_from_header(header, gpus, reports), table=table)


def _check_values(path: Path, table: pa.Table) -> None:
    for expected in ARROW_SCHEMA:
        column = table[expected.name]
        if not expected.nullable and column.null_count:
            _refuse(path, expected.name, pc.is_null(column), "null")
        if pa.types.is_floating(expected.type):
            _refuse(path, expected.name, pc.invert(pc.is_finite(column)), "no finite number")
    for name in _NOT_NEGATIVE:
        _refuse(path, name, pc.less(table[name], 0), "below 0")
    is_op = pc.equal(table["level"], OP)
    unknown = pc.invert(pc.or_(is_op, pc.equal(table["level"], ITERATION)))
    _refuse(path, "level", unknown, "neither op nor iteration")
    _refuse(path, "op", pc.and_(is_op, pc.is_null(table["op"])), "null for an operation")
    kinds = pc.is_in(table["op"], value_set=pa.array([str(kind) for kind in OpKind]))
    _refuse(path, "op", pc.and_(pc.is_valid(table["op"]), pc.invert(kinds)), "no kind of operation")


def _refuse(path: Path, name: str, wrong: Any, what: str) -> None:
    if pc.any(wrong).as_py():  # nulls are not wrong; a file of millions of rows is right in nearly every case
        row = pc.index(wrong, True).as_py()
        raise FileFormatError(f"{path}: column {name!r} is {what} in row {row}")


def _to_json(metadata: TelemetryMetadata) -> dict[str, Any]:
    header = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "tool_version": __version__}
    body = {item.name: getattr(metadata, item.name) for item in fields(metadata)}
    body["pipeline"] = metadata.pipeline.to_json()
    body["gpus"] = [asdict(gpu) for gpu in metadata.gpus]
    return header | body


def metadata_from_header(header: Node, gpus: tuple[Gpu, ...], reports: tuple[str, ...]) -> TelemetryMetadata:
    """What the headers of shards and of whole files have in common, with what they have not.

    Raises:
        FileFormatError: names the field.
    """

    def text(name: str) -> str | None:
        node = header.optional(name)
        return None if node is None else node.text()

    return TelemetryMetadata(
        plan_sha256=text("plan_sha256"),
        profile_sha256=text("profile_sha256"),
        pipeline=pipeline_from_json(header.field("pipeline")),
        world_size=header.field("world_size").integer(minimum=1),
        gpus=gpus,
        timer=header.field("timer").text(),
        sampled_every=header.field("sampled_every").integer(minimum=1),
        framework=text("framework"),
        reports=reports,
        time=text("time"),
    )


def _gpu(node: Node) -> Gpu:
    mode = node.field("mode").text()
    if mode not in list(Mode):
        node.field("mode").fail(f"{mode!r} is none of {', '.join(Mode)}")
    texts = {
        name: None if (member := node.optional(name)) is None else member.text()
        for name in ("name", "uuid", "host", "scope", "energy_source")
    }
    return Gpu(
        rank=node.field("rank").integer(minimum=0),
        stage=node.field("stage").integer(minimum=0),
        mode=Mode(mode),
        **texts,
    )
