"""Fitting a profile to what training runs measured.

Read `calibrate` first; `checks` says what it refuses. A run becomes a `samples.Sample`: the clock and the time
of each operation, for each of its `replicas`, and the time and energy of an iteration. `op_times` fits times
over clocks, `fitted_times` reads every operation's time off these curves, `iteration_time` fits what an
iteration takes beside its operations, `op_energies` the power of operations and of waiting, and `rows` makes
the new profile of them.
"""

__all__ = [
    "calibrate",
    "checks",
    "fitted_times",
    "iteration_time",
    "metadata",
    "op_energies",
    "op_times",
    "records",
    "replicas",
    "rows",
    "samples",
    "tables",
]
