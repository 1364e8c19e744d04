"""Clocks that are always given back: journal, guard process, the block that holds clocks, and repair afterwards.

Standard library alone; a driver is opened through `energyopt.applier.devices` when it is needed.
"""

__all__ = [
    "container",
    "forks",
    "handshake",
    "hold",
    "journal",
    "locks",
    "owner",
    "process",
    "restore",
    "signals",
    "watch",
]
