"""Running a plan's partitions: communication beside compute kernels. Loads no torch of its own accord.

`nodes` and `between` import it, and are themselves imported where a training joins its first region.
"""

__all__ = [
    "asking",
    "between",
    "collectives",
    "communicators",
    "consent",
    "following",
    "gradients",
    "nodes",
    "pending",
    "region",
    "ways",
]
