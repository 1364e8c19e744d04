"""Whether a workload that somebody else's code built can be measured at all."""

import math
from collections.abc import Iterator, Sequence

from energyopt.profiler.workloads.check_overlap import overlap_problems
from energyopt.profiler.workloads.composites import only_cut
from energyopt.profiler.workloads.interface import Kernel, PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import counted
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind


def check_workload(spec: str, workload: Workload) -> Workload:
    """The workload itself.

    Raises:
        WorkloadError: it has no ops, an op, a kernel or an overlap is impossible, or one name means two kernels.
    """
    problem = next(_problems(workload), None)
    if problem is not None:
        raise WorkloadError(f"{spec}: {problem}")
    return workload


def _problems(workload: Workload) -> Iterator[str]:
    if not workload.ops:
        yield "the workload has no ops; give at least a forward"
    whole: dict[str, Kernel] = {}
    cut: dict[str, Kernel] = {}  # the same names on less work
    for op in workload.ops:
        yield from _op_problems(op, workload)
        yield from _use_problems(op, op.partitions, whole)
        yield from _use_problems(op, only_cut(op), cut)
    yield from overlap_problems(workload)


def _use_problems(op: WorkloadOp, uses: Sequence[PartitionUse], known: dict[str, Kernel]) -> Iterator[str]:
    for use in uses:
        for one in use.partition.kernels:
            yield from _kernel_problems(one.kernel, known.setdefault(one.kernel.name, one.kernel))
            if one.count < 1 or use.count < 1:
                yield f"{op.kind} runs {one.kernel.name} {one.count} x {use.count} times; counts start at 1"


def _op_problems(op: WorkloadOp, workload: Workload) -> Iterator[str]:
    if op.kind not in list(OpKind):
        yield f"{op.kind!r} is no kind of operation; known are {', '.join(OpKind)}"
    if not (0 <= op.stage < workload.stages and 0 <= op.chunk < workload.chunks):
        stages, chunks = counted(workload.stages, "stage"), counted(workload.chunks, "chunk")
        yield f"{op.kind} of stage {op.stage}, chunk {op.chunk} is beyond the workload's {stages} of {chunks}"
    if not any(use.partition.kernels for use in op.partitions):
        yield f"{op.kind} of stage {op.stage} runs no kernel; leave it out"


def _kernel_problems(kernel: Kernel, namesake: Kernel) -> Iterator[str]:
    for name in ("flops", "memory_bytes"):
        value = getattr(kernel, name)
        if not (math.isfinite(value) and value >= 0):
            yield f"kernel {kernel.name} has {name} {value}; give 0 or a positive number"
    if _work(kernel) != _work(namesake):
        yield f"the name {kernel.name!r} means two different kernels; name each differently"


def _work(kernel: Kernel) -> tuple[object, ...]:
    return kernel.flops, kernel.memory_bytes, kernel.matrix, kernel.dtype, kernel.communication
