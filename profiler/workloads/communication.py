"""Workloads with and without their communication."""

from dataclasses import replace

from energyopt.profiler.workloads.interface import Partition, PartitionUse, Workload, WorkloadOp


def communicates(workload: Workload) -> bool:
    """Whether any of its kernels needs peers."""
    return any(kernel.communication is not None for kernel in workload.kernels())


def without_communication(workload: Workload) -> Workload:
    """The same workload without its communication kernels, and saying so in its settings."""
    return replace(
        workload,
        ops=tuple(_silent_op(op) for op in workload.ops),
        variants=(),
        composites=(),
        settings=dict(workload.settings) | {"communication": "left out"},
    )


def _silent_op(op: WorkloadOp) -> WorkloadOp:
    """The op as a whole: where nothing communicates, there is nothing to cut it for."""
    return replace(op, partitions=tuple(filter(None, map(_silent_partition, op.partitions))), split=())


def _silent_partition(use: PartitionUse) -> PartitionUse | None:
    kernels = tuple(one for one in use.partition.kernels if one.kernel.communication is None)
    return (
        PartitionUse(partition=Partition(name=use.partition.name, kernels=kernels), count=use.count)
        if kernels
        else None
    )
