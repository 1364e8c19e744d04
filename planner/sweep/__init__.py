"""Planning many layouts of one model from a few profiles, and ranking them at equal global batch."""

__all__ = [
    "keeping",
    "layouts",
    "op_rows",
    "ranking",
    "relayout",
    "running",
    "source",
    "task",
    "wishes",
]
