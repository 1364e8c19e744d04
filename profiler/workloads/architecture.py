"""A decoder-only transformer's sizes, under the names that configuration files use.

Biases of linear layers are left out throughout: they are under 0.1 % of parameters, traffic and operations.
"""

from dataclasses import dataclass
from enum import StrEnum

from energyopt.schemas.errors import WorkloadError


class Activation(StrEnum):
    """The function between the two halves of an MLP."""

    SILU = "silu"
    GELU = "gelu"
    RELU = "relu"


class Norm(StrEnum):
    """How activations are normalised before each block."""

    RMS = "rms"
    LAYER = "layer"


class Position(StrEnum):
    """How positions enter: rotated into queries and keys, or a learned vector added to each embedding."""

    ROTARY = "rotary"
    LEARNED = "learned"


_COUNTS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One model.

    gated_mlp: two up projections, of which the activation of one multiplies the other.
    qk_norm: queries and keys are RMS-normalised per head, before rotation.
    max_position_embeddings: rows of the table of learned positions; None where there is no table.
    """

    name: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    hidden_act: Activation = Activation.SILU
    gated_mlp: bool = True
    norm: Norm = Norm.RMS
    position: Position = Position.ROTARY
    qk_norm: bool = False
    tie_word_embeddings: bool = False
    max_position_embeddings: int | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise WorkloadError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise WorkloadError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if self.position is Position.ROTARY and self.head_dim % 2:
            raise WorkloadError(f"head_dim must be even to be rotated, not {self.head_dim}")
        if self.position is Position.LEARNED and self.max_position_embeddings is None:
            raise WorkloadError("learned positions need max_position_embeddings, the rows of their table")

    @property
    def qkv_features(self) -> int:
        """Width of queries, keys and values together."""
        return (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim

    @property
    def up_features(self) -> int:
        """Width of what the MLP's first projection gives."""
        return self.intermediate_size * (2 if self.gated_mlp else 1)

    @property
    def layer_matrix_parameters(self) -> int:
        """Weights of one layer's linear layers."""
        attention = self.qkv_features + self.num_attention_heads * self.head_dim
        return self.hidden_size * (attention + self.up_features + self.intermediate_size)

    @property
    def layer_parameters(self) -> int:
        """Trainable parameters of one layer: its linear layers, two norms, and those of queries and keys."""
        qk_norms = 2 * self.head_dim if self.qk_norm else 0
        return self.layer_matrix_parameters + 2 * self._norm_parameters + qk_norms

    @property
    def parameters(self) -> int:
        """Trainable parameters of the whole model, without biases of linear layers."""
        tables = self.vocab_size * (1 if self.tie_word_embeddings else 2)
        if self.position is Position.LEARNED:
            tables += self.max_position_embeddings or 0
        layers = self.num_hidden_layers * self.layer_parameters
        return layers + self._norm_parameters + tables * self.hidden_size

    @property
    def _norm_parameters(self) -> int:
        """Of one norm over the hidden width: a scale, and of some a shift."""
        return self.hidden_size * (2 if self.norm is Norm.LAYER else 1)
