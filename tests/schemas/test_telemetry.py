"""telemetry.parquet: what is written is read; what cannot be is refused, with the column and the row."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.telemetry import (
    ARROW_SCHEMA,
    Gpu,
    Mode,
    Telemetry,
    TelemetryMetadata,
    read_telemetry,
    write_telemetry,
)

ITERATION = {"level": "iteration", "rank": 0, "stage": 0, "iteration": 5, "time_s": 2.0, "energy_j": 300.0}
OP = {
    "level": "op",
    "rank": 0,
    "stage": 0,
    "iteration": 5,
    "op": "forward",
    "chunk": 0,
    "microbatch": 1,
    "time_s": 0.5,
}


def telemetry(*rows: dict[str, Any], **changes: Any) -> Telemetry:
    columns = {name: [row.get(name) for row in rows] for name in ARROW_SCHEMA.names}
    settings: dict[str, Any] = {
        "plan_sha256": "ab" * 32,
        "profile_sha256": None,
        "pipeline": Pipeline(stages=1, microbatches=2),
        "world_size": 1,
        "gpus": (Gpu(rank=0, stage=0, mode=Mode.APPLY, name="GPU [b]x[/b]", uuid="GPU-1"),),
        "timer": "cuda_events",
        "reports": ("rank 0: late",),
    }
    return Telemetry(
        metadata=TelemetryMetadata(**(settings | changes)), table=arrow_table(columns, ARROW_SCHEMA)
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    written = telemetry(ITERATION, OP, framework="megatron", sampled_every=10, time="2026-01-01T00:00:00Z")
    write_telemetry(path, written)
    found = read_telemetry(path)
    assert found.metadata == written.metadata
    assert found.table.equals(written.table)
    assert found.ops.num_rows == found.iterations.num_rows == 1


def test_an_empty_run_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_telemetry(path, telemetry(plan_sha256=None, gpus=()))
    assert read_telemetry(path).table.num_rows == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (OP | {"time_s": float("nan")}, "column 'time_s' is no finite number in row 1"),
        (OP | {"time_s": float("inf")}, "column 'time_s' is no finite number in row 1"),
        (OP | {"time_s": -1.0}, "column 'time_s' is below 0 in row 1"),
        (ITERATION | {"energy_j": -1.0}, "column 'energy_j' is below 0 in row 1"),
        (ITERATION | {"rank": -1}, "column 'rank' is below 0 in row 1"),
        (OP | {"level": "kernel"}, "column 'level' is neither op nor iteration in row 1"),
        (OP | {"op": "sideward"}, "column 'op' is no kind of operation in row 1"),
        (OP | {"op": None}, "column 'op' is null for an operation in row 1"),
    ],
)
def test_what_cannot_be_is_refused_with_column_and_row(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    path = tmp_path / "t.parquet"
    write_telemetry(path, telemetry(ITERATION, row, OP))
    with pytest.raises(FileFormatError, match=message):
        read_telemetry(path)


def _rewrite(path: Path, table: pa.Table, header: dict[str, Any]) -> None:
    pq.write_table(table.replace_schema_metadata({"energyopt": json.dumps(header)}), path)


def _parts(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    table = pq.ParquetFile(path).read()
    return table, json.loads(table.schema.metadata[b"energyopt"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(format="other"), "this is a file of format 'other'"),
        (lambda header: header.update(schema_version=99), "upgrade energyopt"),
        (lambda header: header.update(world_size=0), r"expected at least 1, found 0 @ .*world_size"),
        (
            lambda header: header.update(gpus=[{"rank": 0, "stage": 0, "mode": "hover"}]),
            "'hover' is none of apply",
        ),
        (lambda header: header.pop("timer"), r"missing field @ .*timer"),
        (lambda header: header["pipeline"].pop("stages"), r"missing field @ .*stages"),
    ],
)
def test_wrong_metadata_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "t.parquet"
    write_telemetry(path, telemetry(ITERATION))
    table, header = _parts(path)
    change(header)
    _rewrite(path, table, header)
    with pytest.raises(FileFormatError, match=message):
        read_telemetry(path)


def test_a_missing_column_and_a_wrong_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_telemetry(path, telemetry(ITERATION))
    table, header = _parts(path)
    _rewrite(path, table.drop_columns(["energy_j"]), header)
    with pytest.raises(FileFormatError, match="column 'energy_j' is missing or not double"):
        read_telemetry(path)
    place = table.schema.get_field_index("rank")
    _rewrite(path, table.set_column(place, "rank", table["rank"].cast("int64")), header)
    with pytest.raises(FileFormatError, match="column 'rank' is missing or not int32"):
        read_telemetry(path)


def test_optional_facts_of_a_gpu_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    gpu = Gpu(rank=0, stage=0, mode=Mode.OBSERVE)
    written = telemetry(ITERATION)
    write_telemetry(path, replace(written, metadata=replace(written.metadata, gpus=(gpu,))))
    assert read_telemetry(path).metadata.gpus == (gpu,)
