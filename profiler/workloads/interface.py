"""What is measured: ops made of partitions made of kernels, each with what it computes and moves.

A kernel's name tells it apart within its workload: the same name is the same work, measured once, wherever it
stands (a recomputed forward kernel inside a backward is the forward's). Sizes are those of one GPU.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PartitionConfig


class Collective(StrEnum):
    """What a communication kernel does."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    SEND_RECV = "send_recv"  # one step of a ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """One communication kernel's transfer.

    message_bytes: size of the whole tensor on each rank: an all-gather's output, a reduce-scatter's input.
    group: `tensor`, `context` or `data`: which of the job's groups takes part.
    ranks: how many GPUs that group has.
    sms: SMs given to it (NCCL's max_ctas); None leaves the library's own choice.
    """

    collective: Collective
    message_bytes: float
    group: str
    ranks: int
    sms: int | None = None


class Place(Protocol):
    """Where kernels run: handed to `Kernel.prepare`. `torch` is the module, so that workloads import none."""

    torch: Any
    device: Any  # torch.device
    dtype: Any  # torch.dtype of activations and weights

    def group(self, communication: Communication) -> Any:
        """The process group for a communication kernel.

        Raises:
            WorkloadError: this run has no such group.
        """


Prepare = Callable[[Place], Callable[[], object]]
"""Allocates what a kernel needs and gives the function that runs it once, asynchronously on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The smallest thing measured.

    flops: floating-point operations of one run (a multiply-add counts two).
    memory_bytes: least traffic between GPU memory and chip: inputs read once, outputs written once.
    matrix: its flops run on the matrix units (tensor cores).
    launches: device kernels that one run starts (unfused torch code starts several).
    overlap: what it is made of, where it is a whole partition; `communication` is then that of the partition.
    """

    name: str
    flops: float
    memory_bytes: float
    matrix: bool = False
    launches: int = 1
    dtype: str = "bfloat16"
    communication: Communication | None = None
    prepare: Prepare | None = None
    overlap: "Overlap | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUse:
    """A kernel, and how often it runs in its partition."""

    kernel: Kernel
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A run of kernels inside a layer, in order: compute kernels and at most one communication kernel.

    launch_points: compute kernels (as `composites.launch_names` has them) before which the communication may be
        launched so that it runs beside them: none of them needs what it brings, nor does it need them. Empty where
        it cannot.
    comm_sms: SM counts to choose from for the communication, beside the library's own choice.
    """

    name: str
    kernels: tuple[KernelUse, ...]
    launch_points: tuple[str, ...] = ()
    comm_sms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A partition in one configuration, run as one kernel.

    compute: its compute kernels in order.
    communication: with its SMs; None where the partition has none.
    launch: index of the compute kernel before which the communication is launched; None where it runs first, by
        itself.
    """

    compute: tuple[KernelUse, ...]
    communication: Kernel | None
    launch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """What is measured of a partition as a whole: one configuration of it.

    nanobatches: parts of the microbatch, of which the kernel computes one; None where the partition is the same
        however the microbatch is cut.
    """

    kernel: Kernel
    kind: OpKind
    partition: str
    nanobatches: int | None
    config: PartitionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionUse:
    """A partition, and how often it runs in its op (once per layer of the stage, say)."""

    partition: Partition
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOp:
    """One kind of operation of one chunk of one stage.

    split: the same work on a microbatch that is cut into `nanobatches` parts, so that one part's communication can
        run beside another part's compute kernels; counts are over all parts. Empty where it cannot be cut.
    """

    stage: int
    chunk: int
    kind: OpKind
    partitions: tuple[PartitionUse, ...]
    split: tuple[PartitionUse, ...] = ()
    nanobatches: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that one profile measures.

    settings: provenance for the profile's metadata: model, tp, cp, microbatch_size, sequence_length, dtype, ...
    gpus_per_stage: GPUs of one replica that share one stage (tensor times context degree).
    replicas: copies of the stage that run collectives together (data degree), where kernels of group `data` do.
    variants: communication kernels at other SM counts, measured besides; named like tensor_all_reduce@8sms.
    composites: partitions in the configurations that are measured as a whole, besides.
    """

    name: str
    ops: tuple[WorkloadOp, ...]
    stages: int
    chunks: int = 1
    gpus_per_stage: int = 1
    replicas: int = 1
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    variants: tuple[Kernel, ...] = ()
    composites: tuple[Composite, ...] = ()

    @property
    def gpus_together(self) -> int:
        """GPUs that run collectives together, and so measure together."""
        return self.gpus_per_stage * self.replicas

    def kernels(self) -> tuple[Kernel, ...]:
        """Every distinct kernel once, in order of first use, then the variants and the composites."""
        found: dict[str, Kernel] = {}
        for op in self.ops:
            for partition in op.partitions:
                for use in partition.partition.kernels:
                    found.setdefault(use.kernel.name, use.kernel)
        composites = {one.kernel.name: one.kernel for one in self.composites}
        return (*found.values(), *self.variants, *composites.values())
