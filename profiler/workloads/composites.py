"""Partitions as they are measured as a whole: with their communication first, or beside their compute kernels."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from energyopt.profiler.workloads.interface import (
    Composite,
    Kernel,
    KernelUse,
    Overlap,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.layers.communication import with_sms
from energyopt.profiler.workloads.overlapping import prepare_overlap
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig


def compute_uses(partition: Partition) -> tuple[KernelUse, ...]:
    """The compute kernels of a partition, in order."""
    return tuple(use for use in partition.kernels if use.kernel.communication is None)


def communication_of(partition: Partition) -> Kernel | None:
    """The communication kernel of a partition, if it has one."""
    return next((use.kernel for use in partition.kernels if use.kernel.communication is not None), None)


def launch_names(partition: Partition) -> tuple[str, ...]:
    """The compute kernels as launch points: their names, numbered from the second of a name on."""
    seen: Counter[str] = Counter()
    names = []
    for use in compute_uses(partition):
        seen[use.kernel.name] += 1
        number = seen[use.kernel.name]
        names.append(use.kernel.name if number == 1 else f"{use.kernel.name}_{number}")
    return tuple(names)


def configurations(partition: Partition) -> tuple[PartitionConfig, ...]:
    """Every configuration that a partition allows, the plain one first."""
    counts = (None, *partition.comm_sms)
    return (
        PLAIN,
        *(
            PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)
            for launch in partition.launch_points
            for sms in counts
        ),
    )


def composite(
    kind: OpKind, partition: Partition, nanobatches: int | None, config: PartitionConfig
) -> Composite:
    """A partition in one configuration, as something that can be measured.

    Raises:
        WorkloadError: the partition has no such launch point, or no communication to launch.
    """
    overlap = _overlap(partition, config)
    parts = [*((use.kernel, use.count) for use in overlap.compute)]
    if overlap.communication is not None:
        parts.append((overlap.communication, 1))
    kernel = Kernel(
        name=_name(kind, partition, nanobatches, config),
        flops=math.fsum(one.flops * count for one, count in parts),
        memory_bytes=math.fsum(one.memory_bytes * count for one, count in parts),
        launches=sum(one.launches * count for one, count in parts),
        dtype=parts[0][0].dtype,
        communication=None if overlap.communication is None else overlap.communication.communication,
        prepare=prepare_overlap(overlap),
        overlap=overlap,
    )
    return Composite(
        kernel=kernel, kind=kind, partition=partition.name, nanobatches=nanobatches, config=config
    )


def with_composites(workload: Workload) -> Workload:
    """The workload with every configuration of every partition that can run overlapped, to be measured."""
    found: dict[tuple[OpKind, str, int | None, PartitionConfig], Composite] = {}
    kernels: dict[Overlap, Kernel] = {}
    for op in workload.ops:
        for use, nanobatches in overlappable(op):
            for config in configurations(use.partition):
                if nanobatches == 1 and config.is_plain:
                    continue  # what runs today: the sum of its kernels, each of which is measured anyway
                one = composite(op.kind, use.partition, nanobatches, config)
                assert one.kernel.overlap is not None
                kernel = kernels.setdefault(one.kernel.overlap, one.kernel)  # the same work is measured once
                found.setdefault(
                    (op.kind, use.partition.name, nanobatches, config), replace(one, kernel=kernel)
                )
    return replace(workload, composites=tuple(found.values()))


def with_sm_counts(workload: Workload, counts: tuple[int, ...]) -> Workload:
    """The workload with these SM counts to choose from in every partition that overlaps and names none."""

    def chosen(uses: tuple[PartitionUse, ...]) -> tuple[PartitionUse, ...]:
        return tuple(
            replace(use, partition=replace(use.partition, comm_sms=counts))
            if use.partition.launch_points and not use.partition.comm_sms
            else use
            for use in uses
        )

    ops = tuple(replace(op, partitions=chosen(op.partitions), split=chosen(op.split)) for op in workload.ops)
    return replace(workload, ops=ops)


def composites_of(
    op: WorkloadOp, composites: Iterable[Composite]
) -> tuple[tuple[PartitionUse, Composite], ...]:
    """The composites that are those of an op's partitions, each with the use that it stands for."""
    uses = {(use.partition.name, nanobatches): use for use, nanobatches in overlappable(op)}
    return tuple(
        (uses[one.partition, one.nanobatches], one)
        for one in composites
        if one.kind is op.kind and (one.partition, one.nanobatches) in uses
    )


def overlappable(op: WorkloadOp) -> tuple[tuple[PartitionUse, int | None], ...]:
    """The partitions of an op that are measured as a whole, each with the parts that the microbatch is cut into.

    Where an op can be cut, those are all of its cut form but for the ones that run whole anyway; else those of its
    whole form that have launch points.
    """
    if op.split:
        return tuple((use, op.nanobatches) for use in only_cut(op))
    return tuple((use, 1) for use in op.partitions if use.partition.launch_points)


def only_cut(op: WorkloadOp) -> tuple[PartitionUse, ...]:
    """The partitions of an op's cut form that are not also in its whole form."""
    whole = {use.partition for use in op.partitions}
    return tuple(use for use in op.split if use.partition not in whole)


def _overlap(partition: Partition, config: PartitionConfig) -> Overlap:
    communication = communication_of(partition)
    if config.execution is Execution.SEQUENTIAL:
        return Overlap(compute=compute_uses(partition), communication=communication, launch=None)
    names = launch_names(partition)
    if communication is None or config.comm_launch not in names:
        known = ", ".join(names) or "no compute kernel"
        raise WorkloadError(
            f"partition {partition.name} has no launch point {config.comm_launch!r}; it has {known}"
        )
    if config.comm_sms is not None:
        communication = with_sms(communication, config.comm_sms)
    return Overlap(
        compute=compute_uses(partition),
        communication=communication,
        launch=names.index(config.comm_launch),
    )


def _name(kind: OpKind, partition: Partition, nanobatches: int | None, config: PartitionConfig) -> str:
    part = "" if nanobatches in {None, 1} else f"/{nanobatches}"
    return f"{kind} {partition.name}{part} {config}"
