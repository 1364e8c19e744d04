"""Whether what a workload says of its partitions' overlap can be carried out."""

from collections.abc import Iterator

from energyopt.profiler.workloads.composites import launch_names, overlappable
from energyopt.profiler.workloads.interface import Partition, Workload, WorkloadOp

_Known = dict[tuple[str, str, bool], Partition]  # by kind, name, and whether it is of a cut form


def overlap_problems(workload: Workload) -> Iterator[str]:
    """Everything that is wrong, in words."""
    yield from _group_problems(workload)
    known: _Known = {}
    for op in workload.ops:
        yield from _split_problems(op)
        for use in (*op.partitions, *op.split):
            yield from _partition_problems(op, use.partition)
        yield from _name_problems(op, known)


def _group_problems(workload: Workload) -> Iterator[str]:
    for kernel in workload.kernels():
        talk = kernel.communication
        if talk is not None and talk.group == "data" and talk.ranks != workload.replicas:
            yield (
                f"kernel {kernel.name} communicates between {talk.ranks} replicas and the workload has "
                f"{workload.replicas}; give Workload(replicas={talk.ranks})"
            )


def _split_problems(op: WorkloadOp) -> Iterator[str]:
    if not op.split:
        return
    where = f"the split form of {op.kind} of stage {op.stage}"
    if op.nanobatches < 2:
        yield f"{where} has {op.nanobatches} nanobatches; a microbatch is cut into 2 or more"
    if not any(use.partition.launch_points for use in op.split):
        yield f"{where} has no partition with launch points, so that nothing overlaps; leave it out"
    whole = {use.partition: use.count for use in op.partitions}
    for use in op.split:
        name, count = use.partition.name, whole.get(use.partition, use.count)
        if not use.partition.kernels:
            yield f"{where} has a partition without kernels, {name}; leave it out"
        if use.count != count:
            yield f"{where} runs {name} {use.count} times, the whole form {count} times; it is one partition"


def _partition_problems(op: WorkloadOp, partition: Partition) -> Iterator[str]:
    name = f"partition {partition.name} of {op.kind}"
    if partition.launch_points and not _talks(partition):
        yield f"{name} has launch points and no communication to launch"
    known = launch_names(partition)
    for point in partition.launch_points:
        if point not in known:
            yield f"{name} has no launch point {point!r}; it has {', '.join(known) or 'no compute kernel'}"
    counts = partition.comm_sms
    if any(count < 1 for count in counts) or len(set(counts)) < len(counts):
        yield f"{name} has comm_sms {', '.join(map(str, counts))}; give distinct counts of at least 1"


def _name_problems(op: WorkloadOp, known: _Known) -> Iterator[str]:
    """What is measured as a whole is told apart by its name, and has one communication that runs once."""
    seen: set[str] = set()
    for use, nanobatches in overlappable(op):
        partition, name = use.partition, f"partition {use.partition.name} of {op.kind}"
        if _talks(partition) > 1:
            yield f"{name} communicates {_talks(partition)} times; what overlaps does so once: cut it into several"
        if partition.name in seen:
            yield f"{name} stands twice in its op; name each differently, or let it stand once with a count"
        seen.add(partition.name)
        if not _same(partition, known.setdefault((op.kind, partition.name, nanobatches != 1), partition)):
            yield f"{name} means two different partitions; name each differently"


def _talks(partition: Partition) -> int:
    return sum(use.count for use in partition.kernels if use.kernel.communication is not None)


def _same(one: Partition, other: Partition) -> bool:
    """Whether they run the same kernels, which are told apart by name, in the same configurations."""
    return _content(one) == _content(other)


def _content(partition: Partition) -> tuple[object, ...]:
    kernels = tuple((use.kernel.name, use.count) for use in partition.kernels)
    return kernels, partition.launch_points, partition.comm_sms
