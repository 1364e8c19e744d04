"""The process beside a training rank that sets clocks and reads the board: training never waits for a driver.

It holds the board through the clock guard: clocks are given back when training ends, and by the guard's own process
when this one is killed. Standard library alone until a device is opened.
"""

__all__ = [
    "asked",
    "board",
    "clockwork",
    "expected",
    "first_look",
    "iterations",
    "launch_lead",
    "loop",
    "orders",
    "parent",
    "patience",
    "sampling",
    "shard",
    "slowdown_file",
]
