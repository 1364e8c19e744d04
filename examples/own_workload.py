"""Two ways to have your own code profiled, both named as module:function from the folder that the module is in.

A function that returns callables is the quicker one; it needs a GPU, since nothing says how much work they do:

    energyopt profile own_workload:measured -o profile.parquet

A function that returns a Workload states the work of each kernel, so that a simulated GPU can stand in:

    energyopt profile own_workload:described --device sim:a100-sxm4-80gb -o profile.parquet
"""

from collections.abc import Callable

from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Place,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.simple import Timed
from energyopt.schemas.ops import OpKind

TOKENS, WIDTH, LAYERS, STAGES = (
    4096,
    2048,
    4,
    2,
)  # of one microbatch; of the model; on each stage; of the pipeline


def measured() -> list[Timed]:
    """One stage as tuples (kind of operation, name, callable), timed and metered as they are.

    A callable may leave its work queued on the GPU; the profiler waits for it.
    """
    import torch  # inside the function: naming this module must not cost the seconds that torch takes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(TOKENS, WIDTH, device=device, dtype=torch.bfloat16)
    weight = torch.randn(WIDTH, WIDTH, device=device, dtype=torch.bfloat16)

    def backward() -> None:
        x @ weight.T  # the gradient of the input
        x.T @ x  # the gradient of the weight

    return [
        (OpKind.FORWARD, "product", lambda: x @ weight),
        (OpKind.BACKWARD, "gradients", backward),
    ]


def described() -> Workload:
    """A pipeline whose stages each run the same layers, forward and backward."""
    ops = tuple(
        _op(stage, kind, kernels)
        for stage in range(STAGES)
        for kind, kernels in (
            (OpKind.FORWARD, ("forward.product",)),
            (OpKind.BACKWARD, ("backward.input", "backward.weight")),
        )
    )
    return Workload(name="own", ops=ops, stages=STAGES, settings={"model": "own", "microbatch_size": 1})


def _op(stage: int, kind: OpKind, names: tuple[str, ...]) -> WorkloadOp:
    """A partition is a run of kernels with one clock; this one stands once for each layer."""
    partition = Partition(name="layer", kernels=tuple(KernelUse(kernel=_product(name)) for name in names))
    return WorkloadOp(
        stage=stage, chunk=0, kind=kind, partitions=(PartitionUse(partition=partition, count=LAYERS),)
    )


def _product(name: str) -> Kernel:
    """A matrix product of [TOKENS, WIDTH] and [WIDTH, WIDTH], or its like in the backward.

    Kernels of one name are one kernel, measured once wherever they stand.
    """
    elements = 2 * TOKENS * WIDTH + WIDTH * WIDTH  # two operands read once, one result written once
    return Kernel(
        name=name,
        flops=2.0 * TOKENS * WIDTH * WIDTH,  # a multiply-add counts two
        memory_bytes=2.0 * elements,  # two bytes each in bfloat16
        matrix=True,  # runs on the matrix units (tensor cores)
        dtype="bfloat16",
        prepare=_prepare,  # only a real GPU calls it
    )


def _prepare(place: Place) -> Callable[[], object]:
    """Allocate the data once and return what runs the kernel once. `place.torch` is torch.

    All three products have the same sizes but for their order, so one stands for each here.
    """
    x = place.torch.randn(TOKENS, WIDTH, device=place.device, dtype=place.dtype)
    weight = place.torch.randn(WIDTH, WIDTH, device=place.device, dtype=place.dtype)
    return lambda: x @ weight
