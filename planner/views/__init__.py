"""What a file of this tool holds, as JSON-able values and as tables."""

__all__ = [
    "choice",
    "comparison",
    "frontier",
    "measured",
    "partitions",
    "pipeline",
    "plan",
    "power",
    "profile",
    "savings",
    "summary",
    "sweep",
    "telemetry",
    "tradeoff",
    "zeus",
]
