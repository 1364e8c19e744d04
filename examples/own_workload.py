"""Three ways to have your own code profiled, all named as module:function from the folder that the module is in.

A function that returns callables is the quicker one; it needs a GPU, since nothing says how much work they do:

    energyopt profile own_workload:measured -o profile.parquet

A function that returns a Workload states the work of each kernel, so that a simulated GPU can stand in:

    energyopt profile own_workload:described --device sim:a100-sxm4-80gb -o profile.parquet

A Workload whose partitions say where their communication may be launched has them measured as a whole, too:

    energyopt profile own_workload:overlapping --overlap --device sim:a100-sxm4-80gb -o profile.parquet
"""

from collections.abc import Callable

from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Place,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.profiler.workloads.simple import Timed
from energyopt.schemas.ops import OpKind

TOKENS, WIDTH = 4096, 2048  # of one microbatch; of the model
LAYERS, STAGES = 4, 2  # on each stage; of the pipeline
REPLICAS = 2


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


def overlapping() -> Workload:
    """A backward on two replicas: while a layer computes, the gradients of the one before are added up.

    On GPUs it takes `torchrun --nproc-per-node 2 -m energyopt.cli profile ...`.
    """
    names = ("backward.input", "backward.weight")
    gradients = Communication(
        collective=Collective.ALL_REDUCE, message_bytes=2.0 * WIDTH * WIDTH, group="data", ranks=REPLICAS
    )
    kernels = [*map(_product, names), communication_kernel("gradients", gradients, "bfloat16")]
    layer = Partition(
        name="layer",
        kernels=tuple(KernelUse(kernel=one) for one in kernels),
        launch_points=names,  # the compute kernels before which it may begin
        comm_sms=(4, 8, 16),  # SMs that it may be confined to, beside NCCL's own choice
    )
    use = PartitionUse(partition=layer, count=LAYERS)
    op = WorkloadOp(stage=0, chunk=0, kind=OpKind.BACKWARD, partitions=(use,))
    return Workload(name="own", ops=(op,), stages=1, replicas=REPLICAS, settings={"model": "own"})


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
