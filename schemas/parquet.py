"""Opening the tool's Parquet files, whose metadata is one JSON object under the key `energyopt`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node


def open_parquet(path: Path) -> tuple[Any, Node]:
    """Read a Parquet file; return the table and its `energyopt` metadata object.

    Raises:
        FileFormatError: missing, cut short, not Parquet, or not one of this tool's.
    """
    try:
        with path.open("rb") as file:
            table = pq.ParquetFile(file).read(use_threads=False)  # read_table would import pandas
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or 'not a Parquet file'}") from error
    except (pa.ArrowException, ValueError) as error:
        raise FileFormatError(f"{path}: not a Parquet file, or cut short") from error
    metadata = (table.schema.metadata or {}).get(b"energyopt")
    if metadata is None:
        raise FileFormatError(f"{path}: a Parquet file, but none that energyopt wrote")
    try:
        return table, Node(path, "metadata", json.loads(metadata))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: its energyopt metadata is damaged") from error
