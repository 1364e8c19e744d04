"""Measuring what work costs, and reading what others measured: everything that ends in profile.parquet."""

__all__ = [
    "benches",
    "clocks",
    "distributed",
    "doctor",
    "importers",
    "measurement",
    "opening",
    "overlapped",
    "profiling",
    "request",
    "search",
    "simulation",
    "site_lock",
    "surroundings",
    "workloads",
]
