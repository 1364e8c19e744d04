"""Choosing which configurations to measure: multi-objective Bayesian optimisation over (clock, SMs, launch point).

`engine` knows spaces (`space`), what was observed and what it would look at next (`initial`, `surrogate`,
`acquisition`, `front`); it knows nothing of GPUs. `spaces_of` makes spaces of a workload's partitions, `unions`
those that several ranks have in common, `driver` measures what the engine proposes, `budgeting` and `stopping` say
when that is enough, `outcome` is what comes of it, and `packages` says what must be installed.

One model serves all partitions of a job: how a configuration compares with the same partition run sequentially at
the same clock, as a function of clock, SMs, how much of the partition's compute time has passed at the launch
point, and how much of its time is communication. What was seen of one partition so tells of the others.
"""

__all__ = [
    "acquisition",
    "budgeting",
    "driver",
    "engine",
    "front",
    "initial",
    "outcome",
    "packages",
    "space",
    "spaces_of",
    "stopping",
    "surrogate",
    "unions",
]
