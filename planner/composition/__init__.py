"""What an operation costs that is made of partitions: every way to run them, reduced to one front.

`rows` sorts a profile's partition rows by way and clock and refuses gaps; `minkowski` adds fronts up exactly;
`compose` does so for every clock and way of an operation, `mixed_clocks` for partitions at clocks of their own
(`changes` says who follows whom), `thinning` keeps as many options as a plan can use, and
`table` is the whole for a schedule.
"""

__all__ = [
    "changes",
    "compose",
    "minkowski",
    "mixed_clocks",
    "restriction",
    "rows",
    "table",
    "thinning",
]
