"""Profiling with one process per GPU, as torchrun starts them: who is who, what is agreed, how parts join."""

__all__ = [
    "boards",
    "groups",
    "launch",
    "merging",
    "placement",
    "shards",
    "together",
    "torch_team",
    "waiting",
]
