"""What a plan promised beside what a run measured.

Read `verify` first: it joins a plan with a run (`runs`), prices it from a profile where one is given
(`prediction`, operation by operation in `pricing`), and judges the differences (`judging`) with intervals that know
that iterations of one run are correlated (`statistics`).
"""

__all__ = [
    "judging",
    "matching",
    "notes",
    "operations",
    "prediction",
    "pricing",
    "promises",
    "records",
    "runs",
    "saving",
    "scope",
    "statistics",
    "tables",
    "throttling",
    "verify",
]
