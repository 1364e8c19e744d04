"""The measuring rules: windows, error bars, what is rejected, what is measured in which order."""

__all__ = [
    "agreement",
    "budget",
    "calibration",
    "compose",
    "early_stop",
    "estimation",
    "job",
    "latency",
    "partial",
    "profile",
    "records",
    "resting",
    "run",
    "samples",
    "settings",
    "statistics",
    "sweep",
    "team",
    "warming",
    "window",
]
