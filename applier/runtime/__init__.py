"""The shim inside a training process. Standard library alone; drivers are opened by a process of its own."""

__all__ = [
    "agreement",
    "block",
    "channel",
    "checks",
    "complaints",
    "facts",
    "gpu_times",
    "helper_process",
    "off",
    "opening",
    "reports",
    "run",
    "session",
    "settings",
    "slowdown",
    "standard",
    "tables",
]
