"""Which published architectures are taken for what, and which are refused by the name of what is missing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.workloads.architecture import Activation, Norm, Position
from energyopt.profiler.workloads.config_file import read_config_file
from energyopt.schemas.errors import FileFormatError

Write = Callable[..., Path]

SIZES: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 8192,
    "max_position_embeddings": 2048,
    "vocab_size": 50000,
}
# facebook/opt-125m, Zhang et al. 2022
OPT: dict[str, Any] = {
    "_remove_final_layer_norm": False,
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "do_layer_norm_before": True,
    "dropout": 0.1,
    "enable_bias": True,
    "ffn_dim": 3072,
    "hidden_size": 768,
    "init_std": 0.02,
    "layer_norm_elementwise_affine": True,
    "layerdrop": 0.0,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "prefix": "</s>",
    "vocab_size": 50272,
    "word_embed_proj_dim": 768,
}
# EleutherAI/pythia-1.4b but for its last two keys, with which it would be a supported model
NEOX: dict[str, Any] = {
    **SIZES,
    "architectures": ["GPTNeoXForCausalLM"],
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-05,
    "model_type": "gpt_neox",
    "rotary_emb_base": 10000,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vocab_size": 50304,
    "rotary_pct": 1.0,
    "use_parallel_residual": False,
}
SUPPORTED = "supported are gemma, gpt2, gpt_neox, llama, mistral, opt, phi3, qwen2, qwen3"


def test_opt_has_125_million_parameters(write_model: Write) -> None:
    """125.2 M with the released weights, of which 0.07 % are biases."""
    architecture, _ = read_config_file(write_model(OPT))
    assert architecture.parameters == pytest.approx(125.2e6, rel=0.001)
    assert (architecture.norm, architecture.position) == (Norm.LAYER, Position.LEARNED)
    assert (architecture.hidden_act, architecture.gated_mlp) == (Activation.RELU, False)


def test_gpt_neox_has_1_4_billion_parameters(write_model: Write) -> None:
    """1 414 647 808 in Biderman et al. 2023, Table 1 (Pythia 1.4B), where blocks stand in parallel."""
    architecture, _ = read_config_file(write_model(NEOX))
    assert architecture.parameters == pytest.approx(1_414_647_808, rel=0.001)
    assert (architecture.norm, architecture.position) == (Norm.LAYER, Position.ROTARY)
    assert not architecture.tie_word_embeddings


@pytest.mark.parametrize(
    ("base", "changes", "problem"),
    [
        (NEOX, {"use_parallel_residual": True}, "in parallel is not supported (key 'use_parallel_residual')"),
        (NEOX, {"use_parallel_residual": None}, "(its model_type implies 'use_parallel_residual')"),
        (NEOX, {"rotary_pct": 0.25}, "rotation of a part of each head is not supported (key 'rotary_pct')"),
        (NEOX, {"rotary_pct": None}, "(its model_type implies 'partial_rotary_factor')"),
        (
            NEOX,
            {"rotary_pct": None, "rope_parameters": {"partial_rotary_factor": 0.5}},
            "rotation of a part of each head is not supported (key 'partial_rotary_factor')",
        ),
        (OPT, {"do_layer_norm_before": False}, "normalisation after a block is not supported"),
        (OPT, {"word_embed_proj_dim": 512}, "word_embed_proj_dim 512 contradicts $.hidden_size 768"),
        (OPT, {"layerdrop": 0.1}, "dropping layers by chance is not supported (key 'layerdrop')"),
    ],
)
def test_variants_of_supported_models_are_refused(
    write_model: Write, base: dict[str, Any], changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_config_file(write_model(base | changes))
    assert problem in str(caught.value)


def test_newer_files_say_inside_an_object_that_the_whole_head_is_rotated(write_model: Write) -> None:
    changes = {"rotary_pct": None, "rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 1e4}}
    assert read_config_file(write_model(NEOX | changes))[0].head_dim == 128


@pytest.mark.parametrize(
    ("kind", "keys", "reasons"),
    [
        ("bloom", {"n_embed": 64}, ""),
        ("mamba", {"state_size": 16, "conv_kernel": 4}, ""),
        ("gemma2", {"final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256}, "soft-capping of logits"),
        ("mixtral", {"num_experts_per_tok": 2, "num_local_experts": 8}, "mixture of experts"),
        ("qwen3_moe", {"decoder_sparse_step": 1, "norm_topk_prob": True}, "mixture of experts"),
        (
            "deepseek_v3",
            {"kv_lora_rank": 512, "n_routed_experts": 256, "num_nextn_predict_layers": 1},
            "multi-head latent attention, mixture of experts, prediction of several tokens",
        ),
        ("llava", {"text_config": {"model_type": "llama"}, "vision_config": {}}, "multimodal input"),
        ("falcon", {"parallel_attn": True, "alibi": False}, "attention and MLP in parallel"),
        ("t5", {"is_encoder_decoder": True}, "cross attention"),
    ],
)
def test_other_types_are_refused_first(
    write_model: Write, kind: str, keys: dict[str, Any], reasons: str
) -> None:
    """Whatever else their files hold, sizes among it."""
    path = write_model({"zzz": 1, **keys, "model_type": kind})
    with pytest.raises(FileFormatError) as caught:
        read_config_file(path)
    shown = f" ({reasons})" if reasons else ""
    hint = "; give the text model's own config.json" if kind == "llava" else ""
    assert str(caught.value) == f"{path}: model_type '{kind}' is not supported{shown}; {SUPPORTED}{hint}"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"num_experts": 8}, "mixture of experts is not supported (key 'num_experts')"),
        ({"moe_intermediate_size": 8}, "mixture of experts is not supported (key 'moe_intermediate_size')"),
        ({"q_lora_rank": 8}, "multi-head latent attention is not supported (key 'q_lora_rank')"),
        (
            {"attn_logit_softcapping": 50},
            "soft-capping of logits is not supported (key 'attn_logit_softcapping')",
        ),
        ({"quantization_config": {"bits": 4}}, "quantisation is not supported (key 'quantization_config')"),
        (
            {"vision_config": {"depth": 2}},
            "multimodal input is not supported (key 'vision_config'); give the text model's own config.json",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["llama", None])
def test_keys_tell_what_is_not_supported(
    write_model: Write, kind: str | None, keys: dict[str, Any], problem: str
) -> None:
    path = write_model(SIZES | {"model_type": kind} | keys)
    with pytest.raises(FileFormatError) as caught:
        read_config_file(path)
    assert str(caught.value) == f"{path}: {problem}"


def test_keys_that_are_switched_off_are_passed_over(write_model: Write) -> None:
    off: dict[str, Any] = {
        "num_local_experts": 0,
        "final_logit_softcapping": None,
        "is_encoder_decoder": False,
        "mlp_only_layers": [],
        "partial_rotary_factor": 1.0,
        "use_parallel_residual": False,
    }
    assert read_config_file(write_model(SIZES | off)) == read_config_file(write_model(SIZES))
