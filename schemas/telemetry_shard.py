"""A telemetry shard: what one rank writes while it trains. Lines of JSON; standard library alone.

The first line is a header with `format`, the rank, its stage and board, and `ops`: the stage's operations in the
plan's order. Each further line is a recorded iteration, whose `ops` name operations by their position in that list,
or `{"report": text}`. A killed run may leave its last line cut short. `energyopt merge` makes one telemetry.parquet
of the shards of all ranks.
"""

SHARD_FORMAT = "energyopt-telemetry-shard"
SHARD_VERSION = 1
