"""Which rank measures which stage, and with whom.

Ranks are numbered as in Megatron-LM: tensor degree fastest, then context, then data, the pipeline stage slowest.
"""

from dataclasses import dataclass, replace

from energyopt.profiler.workloads.composites import composites_of
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One rank's part.

    stage: the stage that it measures; None for all of them.
    peers: the ranks that run collectives together, itself among them, in order: those of its model-parallel group,
        and of its replicas where the workload has any.
    """

    stage: int | None
    peers: tuple[int, ...]


def place(rank: int, size: int, workload: Workload) -> Placement:
    """One stage per group of ranks where there are enough ranks for all stages, else every stage on each group.

    Raises:
        RequestError: the ranks cannot be divided into groups as large as the workload's communication needs.
    """
    group = workload.gpus_together
    if size % group:
        raise RequestError(
            f"{size} ranks cannot be divided into groups of {group}, which this workload's tensor, context and "
            f"data degrees need: start {group}, or {group} per stage"
        )
    first = rank // group * group
    whole = group * workload.stages
    stage = rank // (size // workload.stages) if size % whole == 0 else None
    return Placement(stage=stage, peers=tuple(range(first, first + group)))


def part_of(workload: Workload, stage: int | None) -> Workload:
    """What of a workload one rank measures."""
    if stage is None:
        return workload
    ops = tuple(op for op in workload.ops if op.stage == stage)
    found = {one.kernel.name for op in ops for _, one in composites_of(op, workload.composites)}
    composites = tuple(one for one in workload.composites if one.kernel.name in found)
    return replace(workload, ops=ops, composites=composites)
