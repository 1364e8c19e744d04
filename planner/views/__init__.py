"""What a file of this tool holds, as JSON-able values and as tables."""

__all__ = [
    "choice",
    "frontier",
    "measured",
    "pipeline",
    "plan",
    "profile",
    "summary",
    "telemetry",
    "tradeoff",
    "zeus",
]
