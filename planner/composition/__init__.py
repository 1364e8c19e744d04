"""What an operation costs that is made of partitions: every way to run them, reduced to one front.

`rows` sorts a profile's partition rows by way and clock and refuses gaps; `minkowski` adds fronts up exactly;
`compose` does so for every clock and way of an operation (from `sources`), `mixed_clocks` for partitions at clocks
of their own (`mixed_search` finds them, `changes` says who follows whom, `switching` what a change costs), `shares`
says what SM counts and clocks of partitions save, `thinning` keeps as many options as a plan can use, `ways` the
numbers of nanobatches that forwards and backwards share, and `table` is the whole for a schedule.
"""

__all__ = [
    "changes",
    "compose",
    "minkowski",
    "mixed_clocks",
    "mixed_search",
    "restriction",
    "rows",
    "shares",
    "sources",
    "switching",
    "table",
    "thinning",
    "ways",
]
