"""What training runs wrote: the shards of all ranks as one telemetry file."""

__all__ = ["merging", "shards"]
