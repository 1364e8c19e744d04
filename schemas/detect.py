"""Telling the tool's files apart by their content, reading no more than that takes."""

import json
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_json
from energyopt.schemas.nodes import Node

PROFILE = "energyopt-profile"
FRONTIER = "energyopt-frontier"
PLAN = "energyopt-plan"
PIPELINE = "pipeline.toml"  # TOML says no format of its own; this is the name of the settings file

_IN_PARQUET = (PROFILE, FRONTIER)
_IN_JSON = (PLAN,)
_HEAD = 256  # bytes; enough for a byte-order mark and blank lines before a JSON object


def detect_format(path: Path) -> str:
    """The format of a file: one of `PROFILE`, `FRONTIER`, `PLAN` and `PIPELINE`.

    Parquet and JSON are known by their first bytes and say their format inside; TOML is known by the suffix.

    Raises:
        FileFormatError: it cannot be read, or is none of these.
    """
    head = _head(path)
    if head.startswith(b"PAR1"):
        return _known(_parquet_header(path), _IN_PARQUET)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return _known(Node(path, "$", read_json(path)), _IN_JSON)
    if path.suffix == ".toml":
        return PIPELINE
    raise FileFormatError(
        f"{path}: {'an empty file' if not head else 'neither Parquet nor JSON nor *.toml'}; "
        "expected a profile, a frontier, a plan or a pipeline.toml"
    )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from error


def _known(header: Node, formats: tuple[str, ...]) -> str:
    found = header.field("format").text()
    if found not in formats:
        raise FileFormatError(f"{header.file}: unknown format {found!r}; known here: {', '.join(formats)}")
    return found


def _parquet_header(path: Path) -> Node:
    """The metadata object of a Parquet file; only the footer is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            metadata = pq.ParquetFile(file).schema_arrow.metadata or {}
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
