"""Simulated GPUs: what a kernel takes and draws at each clock, and a board with a virtual time of its own."""

__all__ = [
    "ampere",
    "board",
    "costs",
    "device",
    "disturbance",
    "gpus",
    "hopper",
    "overlap",
    "power",
    "spec",
    "thermal",
    "timing",
]
