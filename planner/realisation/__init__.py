"""From durations on hulls to measured options: rounding that holds the deadline, then a search for lost slack.

`sweeps` moves whole sets of plans through the graph, `rounding` turns time windows into plans with them, `seeds`
and `pool` find plans for many deadlines at once, `population` improves those of the deadlines that were chosen, and
`variation` makes new plans from old ones. `stage_fronts` and `weaving` give seeds their steady states, `fitting`
says how many options fit into a time, `price_tables` which of them is best, and `shared_choices` lets neighbours
choose together.
"""

__all__ = [
    "fitting",
    "pool",
    "population",
    "price_tables",
    "rounding",
    "seeds",
    "shared_choices",
    "shortening",
    "stage_fronts",
    "sweeps",
    "variation",
    "weaving",
    "windows",
]
