"""The names of Hugging Face configuration files: what is used, what changes nothing, what families imply.

Keys that change neither the work nor its amount (token numbers, dropout, initialisation, generation, ...) are
passed over. Any key that is in neither list is an error, so that a mixture of experts, say, is never taken for a
dense model.
"""

from dataclasses import dataclass

from energyopt.profiler.workloads.architecture import Activation, Norm, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a `model_type` implies that its configuration does not say."""

    gated_mlp: bool = True
    norm: Norm = Norm.RMS
    position: Position = Position.ROTARY
    qk_norm: bool = False
    hidden_act: Activation = Activation.SILU
    tied: bool = False


_GPT2 = Family(
    gated_mlp=False, norm=Norm.LAYER, position=Position.LEARNED, hidden_act=Activation.GELU, tied=True
)
FAMILIES = {
    "gemma": Family(hidden_act=Activation.GELU, tied=True),
    "gpt2": _GPT2,
    "llama": Family(),
    "mistral": Family(),
    "phi3": Family(),
    "qwen2": Family(),
    "qwen3": Family(qk_norm=True),
}
ALIASES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "n_ctx": "max_position_embeddings",
    "activation_function": "hidden_act",
    "hidden_activation": "hidden_act",
}
ACTIVATIONS = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU,
    "gelu_fast": Activation.GELU,
    "gelu_pytorch_tanh": Activation.GELU,
    "relu": Activation.RELU,
}
USED = {
    *ALIASES,
    *ALIASES.values(),
    *("model_type", "name", "vocab_size", "num_key_value_heads", "head_dim", "tie_word_embeddings"),
    *("gated_mlp", "norm", "position", "qk_norm"),
    *("sliding_window", "use_sliding_window", "layer_types"),
}
IRRELEVANT = {
    *("_name_or_path", "architectures", "attention_bias", "auto_map", "dtype", "gradient_checkpointing"),
    *("id2label", "initializer_range", "label2id", "max_window_layers", "mlp_bias", "pretraining_tp"),
    *("reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "torch_dtype"),
    *("original_max_position_embeddings", "use_cache"),
}
IRRELEVANT_STARTS = ("rope_", "summary_", "task_", "transformers_")
IRRELEVANT_ENDS = ("_token_id", "_dropout", "_pdrop", "_epsilon", "_eps")


def is_irrelevant(key: str) -> bool:
    """Whether a key changes neither the work nor its amount."""
    return key in IRRELEVANT or key.startswith(IRRELEVANT_STARTS) or key.endswith(IRRELEVANT_ENDS)
