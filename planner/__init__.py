"""Solving for the energy-time frontier of a training iteration.

Read `frontier` first: it takes a profile and a schedule to a frontier. `problem` is what the others share;
`formulations` relax it, `curve` traces the lower bound that `certificate` proves, `realisation` finds plans of
measured options close to it, `placement` chooses among them, and `simulation` recomputes every number on its own.
"""

__all__ = [
    "arrays",
    "baselines",
    "calibration",
    "certificate",
    "completeness",
    "composition",
    "critical_path",
    "curve",
    "diff",
    "executions",
    "formulations",
    "frontier",
    "graph",
    "hulls",
    "job",
    "levels",
    "limits",
    "options",
    "paths",
    "placement",
    "plots",
    "points",
    "power",
    "problem",
    "progress",
    "realisation",
    "repeats",
    "savings",
    "schedules",
    "selection",
    "simulation",
    "solve",
    "sweep",
    "tables",
    "telemetry",
    "verification",
    "views",
    "ways",
    "wording",
]
