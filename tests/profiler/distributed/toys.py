"""Workloads of few and quick kernels, for `toys:NAME` on the command line."""

from collections.abc import Callable
from typing import Any

from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.schemas.ops import OpKind

SIZE = 384  # of matrices: a product takes about a millisecond
SETTINGS: dict[str, str | int | float] = {"model": "toy", "dtype": "float32"}


def three_gpus() -> Workload:
    """One stage on three GPUs with several collectives: ranks that run them in different orders would hang."""
    talks = [
        communication_kernel(
            f"tensor_{one}",
            Communication(collective=one, message_bytes=12 * 4096.0, group="tensor", ranks=3),
            "float32",
        )
        for one in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
    ]
    op = _op(0, OpKind.FORWARD, [_product("product"), *talks])
    return Workload(name="three", ops=(op,), stages=1, gpus_per_stage=3, settings=SETTINGS)


def one_product() -> Workload:
    """The least there is to measure, on every rank."""
    op = _op(0, OpKind.FORWARD, [_product("product")])
    return Workload(name="one", ops=(op,), stages=1, settings=SETTINGS)


def two_stages() -> Workload:
    """Two stages, each with kernels of its own."""
    ops = [
        _op(stage, kind, [_product(f"stage{stage}.{kind}.{number}") for number in range(3)])
        for stage in range(2)
        for kind in (OpKind.FORWARD, OpKind.BACKWARD)
    ]
    return Workload(name="two", ops=tuple(ops), stages=2, settings=SETTINGS)


def two_replicas() -> Workload:
    """Two replicas whose sums can run beside products: twice in a forward, which is one layer run twice."""
    talk = communication_kernel(
        "data_all_reduce",
        Communication(collective=Collective.ALL_REDUCE, message_bytes=4 * 4096.0, group="data", ranks=2),
        "float32",
    )
    kernels = tuple(KernelUse(kernel=one) for one in (_product("first"), talk, _product("second")))
    layer = Partition(name="layer", kernels=kernels, launch_points=("first", "second"), comm_sms=(4,))
    op = WorkloadOp(
        stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(PartitionUse(partition=layer, count=2),)
    )
    return Workload(name="replicas", ops=(op,), stages=1, replicas=2, settings=SETTINGS)


def _product(name: str) -> Kernel:
    def prepare(place: Any) -> Callable[[], object]:
        matrix = place.torch.randn(SIZE, SIZE)
        return lambda: matrix @ matrix

    return Kernel(name=name, flops=2.0 * SIZE**3, memory_bytes=12.0 * SIZE**2, matrix=True, prepare=prepare)


def _op(stage: int, kind: OpKind, kernels: list[Kernel]) -> WorkloadOp:
    partitions = [Partition(name=one.name, kernels=(KernelUse(kernel=one),)) for one in kernels]
    uses = tuple(PartitionUse(partition=one) for one in partitions)
    return WorkloadOp(stage=stage, chunk=0, kind=kind, partitions=uses)
