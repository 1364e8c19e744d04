"""How a model is trained: cut into stages and over GPUs, in which type, on how many tokens at once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.layers import even_split

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


class Recompute(StrEnum):
    """Which forward kernels a backward runs again: none, attention's core, or all of a layer's."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class AttentionKind(StrEnum):
    """Attention as one kernel that skips masked blocks (flash), or as two batched products and a softmax."""

    FUSED = "fused"
    UNFUSED = "unfused"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """The settings of a job that decide what one GPU computes.

    layers_per_stage: layers of each virtual stage in the model's order (stage 0 to the last of chunk 0, then of
        chunk 1, ...); None spreads them evenly, see `split_layers`.
    split_backward: backward ops come as `backward_input` and `backward_weight`, as zero-bubble schedules need.
    sequence_parallel: norms and residuals work on a share of the tokens, and all-reduces become all-gathers and
        reduce-scatters; None switches it on with tensor parallelism.
    data_parallel: replicas over which weights are sharded: gathered layer by layer in each forward and again in
        each backward, with gradients reduced and scattered layer by layer. Not together with the other two degrees.
    comm_sms: SM counts that communication kernels are measured at besides the library's own choice, alone or
        beside compute kernels.
    """

    stages: int = 1
    chunks: int = 1
    layers_per_stage: tuple[int, ...] | None = None
    microbatch_size: int = 1
    sequence_length: int = 2048
    tensor_parallel: int = 1
    context_parallel: int = 1
    data_parallel: int = 1
    dtype: str = "bfloat16"
    recompute: Recompute = Recompute.NONE
    attention: AttentionKind = AttentionKind.FUSED
    split_backward: bool = False
    sequence_parallel: bool | None = None
    comm_sms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise WorkloadError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.dtype not in DTYPE_BYTES:
            raise WorkloadError(f"dtype {self.dtype!r} is none of {', '.join(DTYPE_BYTES)}")
        if any(count < 1 for count in self.comm_sms) or len(set(self.comm_sms)) < len(self.comm_sms):
            shown = ", ".join(map(str, self.comm_sms))
            raise WorkloadError(f"comm_sms must be distinct counts of at least 1, not {shown}")
        if self.data_parallel > 1 and self.gpus_per_stage > 1:
            raise WorkloadError(
                f"data_parallel {self.data_parallel} cannot be measured together with tensor_parallel "
                f"{self.tensor_parallel} and context_parallel {self.context_parallel}, for a partition has one "
                "communication kernel: leave it at 1 to measure a replica whose weights are not sharded"
            )

    @property
    def gpus_per_stage(self) -> int:
        """GPUs of one replica that share a stage."""
        return self.tensor_parallel * self.context_parallel

    @property
    def can_be_cut(self) -> bool:
        """Whether one half of a microbatch has communication to run beside the other half's compute kernels."""
        return self.gpus_per_stage > 1 and self.microbatch_size % NANOBATCHES == 0

    @property
    def shards_sequence(self) -> bool:
        """Whether norms and residuals work on a share of the tokens."""
        return self.tensor_parallel > 1 and self.sequence_parallel is not False

    @property
    def element_bytes(self) -> int:
        """Size of one activation or weight."""
        return DTYPE_BYTES[self.dtype]


NANOBATCHES = 2
"""Parts that a microbatch is cut into: while one computes, the other communicates."""

COUNTS = (
    "stages",
    "chunks",
    "microbatch_size",
    "sequence_length",
    "tensor_parallel",
    "context_parallel",
    "data_parallel",
)
_NAMES = tuple(field.name for field in fields(JobShape))


def job_shape(settings: Mapping[str, Any]) -> JobShape:
    """A shape from settings as files and flags give them; None leaves a setting at its default.

    Raises:
        WorkloadError: an unknown setting, or a value that cannot be.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if unknown := sorted(set(given) - set(_NAMES)):
        raise WorkloadError(f"unknown job setting {unknown[0]!r}; known are {', '.join(sorted(_NAMES))}")
    for name, kind in (("recompute", Recompute), ("attention", AttentionKind)):
        if name in given:
            given[name] = _one_of(name, given[name], kind)
    for name in ("layers_per_stage", "comm_sms"):
        if name in given:
            given[name] = tuple(given[name])
    return JobShape(**given)


def split_layers(layers: int, shape: JobShape) -> tuple[int, ...]:
    """Layers of each virtual stage, in the model's order.

    Evenly where nothing is asked for, see `even_split`.

    Raises:
        WorkloadError: they do not add up, or a virtual stage is left with nothing to do.
    """
    virtual = shape.stages * shape.chunks
    if shape.layers_per_stage is not None:
        return _check_split(shape.layers_per_stage, layers, virtual)
    if layers < virtual:
        stages, chunks = counted(shape.stages, "stage"), counted(shape.chunks, "chunk")
        raise WorkloadError(
            f"{counted(layers, 'layer')} cannot fill {stages} of {chunks}: take fewer of them"
        )
    return even_split(layers, virtual)


def _check_split(split: tuple[int, ...], layers: int, virtual: int) -> tuple[int, ...]:
    if len(split) != virtual:
        raise WorkloadError(f"layers_per_stage has {len(split)} numbers; stages x chunks are {virtual}")
    if sum(split) != layers:
        raise WorkloadError(
            f"layers_per_stage adds up to {sum(split)}; the model has {counted(layers, 'layer')}"
        )
    if min(split) < 0 or 0 in split[1:-1]:
        raise WorkloadError(
            f"layers_per_stage is {', '.join(map(str, split))}; only the first and the last may have no layer"
        )
    return split


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural takes an s: 1 stage, 2 stages."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one_of(name: str, value: str, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise WorkloadError(f"{name} {value!r} is none of {', '.join(kind)}") from None
