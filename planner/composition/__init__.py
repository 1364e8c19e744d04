"""What an operation costs that is made of partitions: every way to run them, reduced to one front.

`rows` sorts a profile's partition rows by way and clock and refuses gaps; `minkowski` adds fronts up exactly;
`compose` does so for every clock and way of an operation, `thinning` keeps as many options as a plan can use, and
`table` is the whole for a schedule.
"""

__all__ = [
    "compose",
    "minkowski",
    "restriction",
    "rows",
    "table",
    "thinning",
]
