"""Typed records and file formats that the other packages share.

Submodules are imported by name, so that a training process which needs only `plan` loads only the standard
library: `profile`, `frontier` and `telemetry` bring in pyarrow, the others bring in nothing.
"""

__all__ = [
    "columns",
    "detect",
    "errors",
    "files",
    "frontier",
    "intervals",
    "nodes",
    "notation",
    "ops",
    "parquet",
    "pipeline",
    "plan",
    "profile",
    "telemetry",
    "telemetry_shard",
]
