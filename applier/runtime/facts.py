"""What is known of the training run that this process is part of."""

from collections.abc import Callable
from dataclasses import dataclass

from energyopt.schemas.ops import OpKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOp:
    """One operation of this rank, as the framework's own schedule has it."""

    kind: OpKind
    chunk: int
    microbatch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Where this rank stands in the run; None where the framework does not say.

    framework: name and version, such as `megatron-core 0.16.1`.
    stage: this rank's pipeline stage; `chunks` counts the model chunks (virtual stages) on it.
    schedule: energyopt's name of the schedule (`gpipe`, `1f1b`, `interleaved-1f1b`, `zb-h1`), where it has one.
    device_ordinal: the GPU as CUDA counts it, which CUDA_VISIBLE_DEVICES may have renumbered.
    order: this stage's operations in execution order, where the framework lists them beforehand.
    """

    framework: str
    rank: int
    world_size: int
    stage: int
    stages: int
    chunks: int
    microbatches: int
    schedule: str | None = None
    tensor_parallel: int | None = None
    context_parallel: int | None = None
    data_parallel: int | None = None
    device_ordinal: int | None = None
    order: tuple[PlacedOp, ...] | None = None


Describe = Callable[[], RunFacts]
"""Called once, when the first iteration starts: what an adapter needs to know may not be known at import."""
