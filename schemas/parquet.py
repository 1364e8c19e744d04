"""Opening the tool's Parquet files, whose metadata is one JSON object under the key `energyopt`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_bytes
from energyopt.schemas.nodes import Node


def open_parquet(path: Path) -> tuple[Any, Node]:
    """Read a Parquet file; return the table and its `energyopt` metadata object.

    Raises:
        FileFormatError: missing, cut short, not Parquet, or not one of this tool's.
    """
    # Arrow's threads may outlive the interpreter: they must hold no file of Python's, or the exit aborts
    source = pa.BufferReader(read_bytes(path))
    try:
        table = pq.ParquetFile(source).read(use_threads=False)  # read_table would import pandas
    except (OSError, pa.ArrowException, ValueError) as error:
        raise FileFormatError(f"{path}: not a Parquet file, or cut short") from error
    metadata = (table.schema.metadata or {}).get(b"energyopt")
    if metadata is None:
        raise FileFormatError(f"{path}: a Parquet file, but none that energyopt wrote")
    try:
        return table, Node(path, "metadata", json.loads(metadata))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: its energyopt metadata is damaged") from error
