"""What one GPU holds of a model: sizes after tensor, context and sequence parallelism have taken their share."""

import math
from dataclasses import dataclass

from energyopt.profiler.workloads.architecture import Architecture, Position
from energyopt.profiler.workloads.job import JobShape
from energyopt.schemas.errors import WorkloadError

_VOCABULARY_MULTIPLE = 128  # Megatron-LM's --make-vocab-size-divisible-by, per tensor-parallel rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes on one GPU.

    queries, keys: positions of a sequence that this GPU computes, and that attention looks at in all.
    rows: tokens that norms and residuals see; fewer than `tokens` with sequence parallelism.
    vocabulary: this rank's share of the padded vocabulary.
    """

    batch: int
    queries: int
    keys: int
    rows: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    up_features: int
    vocabulary: int
    dtype: str
    element_bytes: int

    @property
    def tokens(self) -> int:
        """Tokens that the matrix products see."""
        return self.batch * self.queries

    @property
    def qkv_features(self) -> int:
        """Width of this rank's queries, keys and values together."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def local_sizes(architecture: Architecture, shape: JobShape) -> Sizes:
    """The sizes on one GPU.

    The vocabulary is padded to a multiple of 128 x tensor_parallel, as Megatron-LM does.

    Raises:
        WorkloadError: heads, MLP or sequence do not divide, or positions run out.
    """
    _check(architecture, shape)
    degree = shape.tensor_parallel
    queries = shape.sequence_length // shape.context_parallel
    tokens = shape.microbatch_size * queries
    multiple = _VOCABULARY_MULTIPLE * degree
    return Sizes(
        batch=shape.microbatch_size,
        queries=queries,
        keys=shape.sequence_length,
        rows=tokens // degree if shape.shards_sequence else tokens,
        hidden=architecture.hidden_size,
        heads=architecture.num_attention_heads // degree,
        kv_heads=architecture.num_key_value_heads // degree,
        head_dim=architecture.head_dim,
        intermediate=architecture.intermediate_size // degree,
        up_features=architecture.up_features // degree,
        vocabulary=math.ceil(architecture.vocab_size / multiple) * _VOCABULARY_MULTIPLE,
        dtype=shape.dtype,
        element_bytes=shape.element_bytes,
    )


def _check(architecture: Architecture, shape: JobShape) -> None:
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        _must_divide(name, getattr(architecture, name), "tensor_parallel", shape.tensor_parallel)
    if shape.context_parallel > 1:  # each rank takes an early and a late piece, so that causal work is even
        twice = 2 * shape.context_parallel
        _must_divide("sequence_length", shape.sequence_length, "2 x context_parallel =", twice)
    if shape.shards_sequence:
        product = shape.tensor_parallel * shape.context_parallel
        _must_divide("sequence_length", shape.sequence_length, "tensor x context parallel =", product)
    limit = architecture.max_position_embeddings
    if architecture.position is Position.LEARNED and limit is not None and shape.sequence_length > limit:
        raise WorkloadError(
            f"sequence_length {shape.sequence_length} exceeds the {limit} learned positions of "
            f"{architecture.name}: shorten it"
        )


def _must_divide(name: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise WorkloadError(
            f"{name} {value} is not divisible by {by} {divisor}: choose a degree that divides it"
        )
