"""Plans that change clocks seldom: at most so many changes an iteration, and none that could not land.

`rules` says what is asked for, `viterbi` and `bounds` what it costs at least, `groups` which operations share a
clock in the relaxed problem (`formulations.shared`), `starts` and `search` find plans, `dwell` checks them by the
thousand. `blocks`, `block_seeds` and `block_search` find plans that only have to keep a clock for long enough,
`lifting` and `lift_search` plans of long pipelines. `frontier` limits a whole frontier and `tradeoff` shows what
limits cost.
"""

__all__ = [
    "block_search",
    "block_seeds",
    "blocks",
    "bounds",
    "clocks",
    "diving",
    "dwell",
    "frontier",
    "groups",
    "lift_search",
    "lifting",
    "limited",
    "move_search",
    "moves",
    "plans",
    "prices",
    "rules",
    "search",
    "starts",
    "steady",
    "tradeoff",
    "variants",
    "viterbi",
]
