"""Fitting a profile to what training runs measured.

Read `calibrate` first. A run becomes a `samples.Sample`: the clock and the time of each operation, and the time and
energy of an iteration. `op_times` fits times over clocks, `iteration_time` what an iteration takes beside its
operations, `op_energies` the power of operations and of waiting, and `rows` makes the new profile of them.
"""

__all__ = [
    "calibrate",
    "iteration_time",
    "metadata",
    "op_energies",
    "op_times",
    "records",
    "rows",
    "samples",
    "tables",
]
