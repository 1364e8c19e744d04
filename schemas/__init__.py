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
    "frontier_points",
    "intervals",
    "layers",
    "nodes",
    "notation",
    "ops",
    "options",
    "parquet",
    "partition_order",
    "partitions",
    "pipeline",
    "plan",
    "planned_ops",
    "profile",
    "profile_metadata",
    "sweep",
    "sweep_request",
    "telemetry",
    "telemetry_shard",
]
