"""Comparing two plan files or two frontiers, and saying whether the new one is worse."""

__all__ = [
    "clocks",
    "comparable",
    "compare",
    "executions",
    "formats",
    "github",
    "interface",
    "json_format",
    "markdown",
    "records",
    "tables",
    "text",
    "thresholds",
]
