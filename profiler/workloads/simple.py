"""A workload from plain callables, for a training loop of one's own."""

from collections.abc import Callable, Iterable
from typing import Any

from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Place,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind

Timed = tuple[str, str, Callable[[], object]]
"""Kind of operation, a name, and what runs it once (asynchronously on a GPU, if it likes)."""


def callable_kernel(
    name: str, run: Callable[[], object], *, flops: float = 0.0, memory_bytes: float = 0.0
) -> Kernel:
    """A kernel from a callable; 0 operations or bytes mean that they are not known."""

    def prepare(place: Place) -> Callable[[], object]:  # noqa: ARG001 - the callable brings its own data
        return run

    return Kernel(name=name, flops=flops, memory_bytes=memory_bytes, prepare=prepare)


def simple_workload(name: str, timed: Iterable[Timed]) -> Workload:
    """One stage whose ops run the given callables: those of one kind follow each other within its op.

    Raises:
        WorkloadError: no callable, an unknown kind, or a name given twice.
    """
    kernels: dict[OpKind, list[Kernel]] = {}
    names: set[str] = set()
    for one in timed:
        kind, kernel = _checked(one)
        if kernel.name in names:
            raise WorkloadError(
                f"{name}: the name {kernel.name!r} stands twice; name each callable differently"
            )
        names.add(kernel.name)
        kernels.setdefault(kind, []).append(kernel)
    if not kernels:
        raise WorkloadError(f"{name}: no callable to measure; give (kind, name, callable)")
    ops = tuple(_op(kind, own) for kind, own in kernels.items())
    return Workload(name=name, ops=ops, stages=1, settings={"model": name})


def _checked(one: Any) -> tuple[OpKind, Kernel]:
    if not isinstance(one, tuple) or len(one) != 3 or not callable(one[2]):
        raise WorkloadError(f"expected a tuple (kind, name, callable), found {one!r:.80}")
    kind, name, run = one
    if kind not in list(OpKind):
        raise WorkloadError(f"{kind!r} is no kind of operation; known are {', '.join(OpKind)}")
    return OpKind(kind), callable_kernel(str(name), run)


def _op(kind: OpKind, kernels: list[Kernel]) -> WorkloadOp:
    partition = Partition(name="all", kernels=tuple(KernelUse(kernel=kernel) for kernel in kernels))
    return WorkloadOp(stage=0, chunk=0, kind=kind, partitions=(PartitionUse(partition=partition),))
