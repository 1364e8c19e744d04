"""Telling the tool's files apart by their content."""

import json
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_bytes, read_json
from energyopt.schemas.nodes import Node

PROFILE = "energyopt-profile"
FRONTIER = "energyopt-frontier"
PLAN = "energyopt-plan"
TELEMETRY = "energyopt-telemetry"
SWEEP = "energyopt-sweep"
ZEUS = "zeus-list"  # a frequency plan of Zeus, which says no format of its own either
PIPELINE = "pipeline.toml"  # TOML says no format of its own; this is the name of the settings file

_IN_PARQUET = (PROFILE, FRONTIER, TELEMETRY)
_IN_JSON = (PLAN, SWEEP)


def detect_format(path: Path) -> str:
    """The format of a file: one of `PROFILE`, `FRONTIER`, `TELEMETRY`, `PLAN`, `SWEEP`, `ZEUS` and `PIPELINE`.

    Parquet and JSON are known by their first bytes and say their format inside; TOML is known by the suffix, a
    list for Zeus by its opening bracket. The whole file is read: of a pipe, only inside `reading_once`.

    Raises:
        FileFormatError: it cannot be read, or is none of these.
    """
    content = read_bytes(path)
    if content.startswith(b"PAR1"):
        return _known(_parquet_header(path, content), _IN_PARQUET)
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"{":
        return _known(Node(path, "$", read_json(path)), _IN_JSON)
    if path.suffix == ".toml":
        return PIPELINE
    if start == b"[":
        return ZEUS
    raise FileFormatError(
        f"{path}: {'neither Parquet nor JSON nor *.toml' if content else 'an empty file'}; "
        "expected a profile, a frontier, a telemetry, a plan, a sweep, a list for Zeus or a pipeline.toml"
    )


def _known(header: Node, formats: tuple[str, ...]) -> str:
    found = header.field("format").text()
    if found not in formats:
        raise FileFormatError(f"{header.file}: unknown format {found!r}; known here: {', '.join(formats)}")
    return found


def _parquet_header(path: Path, content: bytes) -> Node:
    """The metadata object of a Parquet file; only the footer is parsed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.ParquetFile(pa.BufferReader(content)).schema_arrow.metadata or {}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FileFormatError(f"{path}: not a Parquet file, or cut short") from error
    if b"energyopt" not in metadata:
        raise FileFormatError(f"{path}: a Parquet file, but none that energyopt wrote")
    return Node(path, "metadata", _parsed(path, metadata[b"energyopt"]))


def _parsed(path: Path, metadata: bytes) -> Any:
    try:
        return json.loads(metadata)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: its energyopt metadata is damaged") from error
