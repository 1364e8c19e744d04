"""The relaxed planning problem (LP) and its exact counterpart (MILP), each written once per solver."""

__all__ = [
    "aggregated",
    "cvxpy_lp",
    "cvxpy_milp",
    "cvxpy_mixed",
    "cvxpy_shared",
    "highs",
    "incidence",
    "interface",
    "rows",
    "segments",
    "shared",
    "shared_highs",
]
