"""The names of Hugging Face configuration files: what is used, what changes nothing, what families imply.

Keys that change neither the work nor its amount (token numbers, dropout, initialisation, generation, ...) are
passed over. Keys that ask for what is not modelled are refused by its name, unless their value switches it off. Any
other key is an error, so that a mixture of experts, say, is never taken for a dense model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from energyopt.profiler.workloads.architecture import Activation, Norm, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a `model_type` implies that its configuration does not say.

    implied: keys that stand for something which is not modelled, with the values they have where a file has none.
    """

    gated_mlp: bool = True
    norm: Norm = Norm.RMS
    position: Position = Position.ROTARY
    qk_norm: bool = False
    hidden_act: Activation = Activation.SILU
    tied: bool = False
    implied: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


_GPT2 = Family(
    gated_mlp=False, norm=Norm.LAYER, position=Position.LEARNED, hidden_act=Activation.GELU, tied=True
)
# The defaults of Hugging Face's GPTNeoXConfig, with which Pythia and GPT-NeoX-20B were published.
_GPT_NEOX = Family(
    gated_mlp=False,
    norm=Norm.LAYER,
    hidden_act=Activation.GELU,
    implied=MappingProxyType({"use_parallel_residual": True, "partial_rotary_factor": 0.25}),
)
FAMILIES = {
    "gemma": Family(hidden_act=Activation.GELU, tied=True),
    "gpt2": _GPT2,
    "gpt_neox": _GPT_NEOX,
    "llama": Family(),
    "mistral": Family(),
    "opt": replace(_GPT2, hidden_act=Activation.RELU),
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
    "ffn_dim": "intermediate_size",
    "word_embed_proj_dim": "hidden_size",  # where they differ, OPT projects between the two
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
    *("_name_or_path", "architectures", "attention_bias", "auto_map", "dropout", "dtype", "embed_dim"),
    *(
        "enable_bias",
        "gradient_checkpointing",
        "id2label",
        "init_std",
        "initializer_range",
        "is_llama_config",
    ),
    *("label2id", "layer_norm_elementwise_affine", "max_window_layers", "mlp_bias", "output_attentions"),
    *("original_max_position_embeddings", "output_hidden_states", "prefix", "pretraining_tp", "return_dict"),
    *("reorder_and_upcast_attn", "rotary_emb_base", "scale_attn_by_inverse_layer_idx", "scale_attn_weights"),
    *("torch_dtype", "use_cache"),
}
IRRELEVANT_STARTS = ("_attn_implementation", "rope_", "summary_", "task_", "transformers_")
IRRELEVANT_ENDS = ("_token_id", "_dropout", "_pdrop", "_epsilon", "_eps")

MULTIMODAL = "multimodal input"
_MIXTURE = "mixture of experts"
_LATENT = "multi-head latent attention"
_PARALLEL = "attention and MLP in parallel"
_STATE_SPACE = "a layer with a state instead of attention"
_CROSS = "cross attention"
_FEATURES = {
    **dict.fromkeys(("decoder_sparse_step", "first_k_dense_replace", "mlp_only_layers"), _MIXTURE),
    **dict.fromkeys(
        ("n_routed_experts", "n_shared_experts", "norm_topk_prob", "output_router_logits"), _MIXTURE
    ),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"), _LATENT),
    **dict.fromkeys(("audio_config", "image_token_index", "text_config", "vision_config"), MULTIMODAL),
    **dict.fromkeys(("use_parallel_residual", "parallel_attn", "new_decoder_architecture"), _PARALLEL),
    **dict.fromkeys(("add_cross_attention", "is_encoder_decoder"), _CROSS),
    **dict.fromkeys(
        ("attention_types", "attention_window", "sliding_window_pattern"), "attention over a window"
    ),
    "alibi": "a bias on attention's scores (ALiBi)",
    "do_layer_norm_before": "normalisation after a block",
    "_remove_final_layer_norm": "a model without its last normalisation",
    "layerdrop": "dropping layers by chance",
    "num_nextn_predict_layers": "prediction of several tokens",
    "partial_rotary_factor": "rotation of a part of each head",
    "quantization_config": "quantisation",
}
_FEATURE_STARTS = {
    **dict.fromkeys(("num_experts", "num_local_experts", "moe_", "router_", "shared_expert_"), _MIXTURE),
    **dict.fromkeys(("mamba_", "ssm_", "linear_num_", "linear_key_", "linear_value_"), _STATE_SPACE),
}
_FEATURE_ENDS = {"softcapping": "soft-capping of logits"}
_OFF: dict[str, object] = {"do_layer_norm_before": True, "partial_rotary_factor": 1.0}
FEATURE_ALIASES = {"rotary_pct": "partial_rotary_factor"}


def is_irrelevant(key: str) -> bool:
    """Whether a key changes neither the work nor its amount."""
    return key in IRRELEVANT or key.startswith(IRRELEVANT_STARTS) or key.endswith(IRRELEVANT_ENDS)


def feature_of(key: str) -> str | None:
    """What is not modelled that a key asks for; None for any other key."""
    exact = _FEATURES.get(FEATURE_ALIASES.get(key, key))
    starts = (name for start, name in _FEATURE_STARTS.items() if key.startswith(start))
    ends = (name for end, name in _FEATURE_ENDS.items() if key.endswith(end))
    return exact or next(starts, None) or next(ends, None)


def is_off(key: str, value: object) -> bool:
    """Whether this value of a key of `feature_of` leaves the feature out: null, false, 0, empty, or as listed."""
    name = FEATURE_ALIASES.get(key, key)
    return value is None or (value == _OFF[name] if name in _OFF else not value)
