"""From windows to rows: kernels as measured, partitions and ops as the sums of what they run.

A row of level `kernel` serves every stage; its count is how often it runs in its partition. Partitions and ops are
rows of their stage and chunk; an op runs its partitions one after the other, each on its own. Where partitions were
also measured as a whole, each configuration that has a window at a clock has its row beside them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from energyopt.profiler.measurement.row_maker import Part, RowMaker, Windows
from energyopt.profiler.measurement.window import Window
from energyopt.profiler.workloads.composites import composites_of
from energyopt.profiler.workloads.interface import (
    Composite,
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.partitions import Execution
from energyopt.schemas.profile import EnergySource, Level, ProfileRow


def rows_of(
    workload: Workload, windows: Windows, clocks_mhz: Iterable[int], source: EnergySource, rank: int | None
) -> list[ProfileRow]:
    """All rows of a profile, from the windows of every kernel at every clock."""
    rows: list[ProfileRow] = []
    for clock in clocks_mhz:
        maker = RowMaker(windows, clock, source, rank)
        rows.extend(_kernel_rows(workload, maker))
        for op in workload.ops:
            rows.extend(_op_rows(op, maker, composed=bool(workload.composites)))
            for use, composite in composites_of(op, workload.composites):
                rows.extend(_composite_row(op, use, composite, maker))
    return rows


def gaps_of(workload: Workload, windows: Windows, clocks_mhz: Iterable[int]) -> list[str]:
    """Every kernel that gave no number at a clock, with the clock and the reason.

    Of partitions as a whole, only what was tried: not every configuration need be measured at every clock.
    """
    return [
        f"{kernel.name} at {clock} MHz: {_last_reason(windows.get((kernel.name, clock), []))}"
        for clock in clocks_mhz
        for kernel in workload.kernels()
        if kernel.overlap is None or (kernel.name, clock) in windows
        if all(one.energy_j is None for one in windows.get((kernel.name, clock), []))
    ]


def _last_reason(windows: list[Window]) -> str:
    return str(windows[-1].rejected) if windows else "not measured"


def op_parts(op: WorkloadOp) -> list[Part]:
    """How often an op runs each kernel."""
    counts: Counter[str] = Counter()
    for use in op.partitions:
        for kernel in use.partition.kernels:
            counts[kernel.kernel.name] += kernel.count * use.count
    return sorted(counts.items())


def _kernel_rows(workload: Workload, maker: RowMaker) -> Iterator[ProfileRow]:
    seen: set[tuple[str, str, str]] = set()
    for op in workload.ops:
        for use in op.partitions:
            for kernel in _merged(use.partition):
                key = (op.kind, use.partition.name, kernel.kernel.name)
                if key not in seen:
                    seen.add(key)
                    yield from _with_variants(workload, op, use, kernel, maker)


def _with_variants(
    workload: Workload, op: WorkloadOp, use: PartitionUse, kernel: KernelUse, maker: RowMaker
) -> Iterator[ProfileRow]:
    """A kernel's row, and those of the same communication on other numbers of SMs."""
    yield from _kernel_row(op, use, kernel, kernel.kernel, maker)
    for variant in workload.variants:
        if variant.name.partition("@")[0] == kernel.kernel.name:
            yield from _kernel_row(op, use, kernel, variant, maker)


def _kernel_row(
    op: WorkloadOp, use: PartitionUse, kernel: KernelUse, measured: Kernel, maker: RowMaker
) -> Iterator[ProfileRow]:
    communication = measured.communication
    yield from maker.rows(
        [(measured.name, 1)],
        level=Level.KERNEL,
        op=op.kind,
        partition=use.partition.name,
        kernel=kernel.kernel.name,
        count=kernel.count,
        comm_sms=None if communication is None else communication.sms,
    )


def _merged(partition: Partition) -> list[KernelUse]:
    """A partition's kernels, each once, with how often it runs there in all."""
    counts: Counter[str] = Counter()
    for use in partition.kernels:
        counts[use.kernel.name] += use.count
    kernels = {use.kernel.name: use.kernel for use in partition.kernels}
    return [KernelUse(kernel=kernels[name], count=count) for name, count in counts.items()]


def _op_rows(op: WorkloadOp, maker: RowMaker, *, composed: bool) -> Iterator[ProfileRow]:
    """An op's partitions and the op, one kernel after the other on the whole microbatch.

    composed: whether partitions are also measured as a whole, so that a row has to say which way of running its op
        it belongs to: all of them, for a partition that is the same in all.
    """
    both = {use.partition for use in op.split}
    for use in op.partitions:
        own = composed and (use.partition not in both if op.split else bool(use.partition.launch_points))
        parts = [(kernel.kernel.name, kernel.count) for kernel in _merged(use.partition)]
        yield from maker.rows(
            parts,
            level=Level.PARTITION,
            stage=op.stage,
            chunk=op.chunk,
            op=op.kind,
            partition=use.partition.name,
            count=use.count,
            execution=Execution.SEQUENTIAL,
            nanobatches=1 if own else None,
        )
    yield from maker.rows(
        op_parts(op),
        level=Level.OP,
        stage=op.stage,
        chunk=op.chunk,
        op=op.kind,
        execution=Execution.SEQUENTIAL,
    )


def _composite_row(
    op: WorkloadOp, use: PartitionUse, composite: Composite, maker: RowMaker
) -> Iterator[ProfileRow]:
    config = composite.config
    yield from maker.rows(
        [(composite.kernel.name, 1)],
        level=Level.PARTITION,
        stage=op.stage,
        chunk=op.chunk,
        op=op.kind,
        partition=use.partition.name,
        count=use.count,
        execution=config.execution,
        comm_launch=config.comm_launch,
        comm_sms=config.comm_sms,
        nanobatches=composite.nanobatches,
    )
