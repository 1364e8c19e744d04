"""From durations on hulls to measured options: rounding that holds the deadline, then a search for lost slack.

`sweeps` moves whole sets of plans through the graph, `rounding` turns time windows into plans with them, `seeds`
and `pool` find plans for many deadlines at once, `population` improves those of the deadlines that were chosen, and
`variation` makes new plans from old ones. `stage_fronts` and `weaving` give seeds their steady states, and
`fitting` says how many options fit into a time.
"""

__all__ = [
    "fitting",
    "pool",
    "population",
    "rounding",
    "seeds",
    "shortening",
    "stage_fronts",
    "sweeps",
    "variation",
    "weaving",
    "windows",
]
