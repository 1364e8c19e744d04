"""Operations of a pipeline iteration: what a stage does, in which order, and how it is keyed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class OpKind(StrEnum):
    """The kinds of operation that a stage runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BACKWARD_INPUT = "backward_input"
    BACKWARD_WEIGHT = "backward_weight"
    FORWARD_BACKWARD = "forward_backward"
    OPTIMIZER = "optimizer"
    GRAD_SYNC = "grad_sync"


class OpKey(NamedTuple):
    """What decides the cost of an operation: all its microbatches share one set of operating points."""

    stage: int
    chunk: int
    kind: OpKind

    def __str__(self) -> str:
        chunk = f", chunk {self.chunk}" if self.chunk else ""
        return f"{self.kind} of stage {self.stage}{chunk}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of one stage.

    `backward_chunk` and `backward_microbatch` are set for `forward_backward` alone: the backward half of the
    one call that runs both; `chunk` and `microbatch` are then those of the forward half.
    """

    stage: int
    chunk: int
    microbatch: int
    kind: OpKind
    backward_chunk: int | None = None
    backward_microbatch: int | None = None

    @property
    def key(self) -> OpKey:
        """The key that the operating points of this operation are stored under."""
        return OpKey(self.stage, self.chunk, self.kind)

    def __str__(self) -> str:
        chunk = f", chunk {self.chunk}" if self.chunk else ""
        return f"{self.kind} of microbatch {self.microbatch} on stage {self.stage}{chunk}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The operations of every stage in execution order.

    `virtual_stages[s][c]` is the place of chunk c of stage s in the model's order: activations flow from
    virtual stage v to v + 1, gradients back.
    """

    name: str
    microbatches: int
    virtual_stages: tuple[tuple[int, ...], ...]
    orders: tuple[tuple[Op, ...], ...]

    @property
    def stages(self) -> int:
        """The number of pipeline stages (ranks of the pipeline)."""
        return len(self.orders)

    @property
    def chunks_per_stage(self) -> int:
        """The largest number of model chunks on one stage."""
        return max(len(chunks) for chunks in self.virtual_stages)

    @property
    def ops(self) -> tuple[Op, ...]:
        """All operations, stage by stage, each stage in execution order."""
        return tuple(op for order in self.orders for op in order)
