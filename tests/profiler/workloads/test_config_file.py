from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.workloads.architecture import Activation, Architecture, Norm, Position
from energyopt.profiler.workloads.config_file import read_config_file
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.schemas.errors import FileFormatError, WorkloadError

# The keys and sizes that published files have, with others that change nothing.
LLAMA_3B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008],
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 3072,
    "initializer_range": 0.02,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 24,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "rope_type": "llama3"},
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0",
    "use_cache": True,
    "vocab_size": 128256,
}
GPT2: dict[str, Any] = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True}},
    "vocab_size": 50257,
}
TOML = """
model_type = "qwen3"
hidden_size = 64
num_hidden_layers = 6
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
intermediate_size = 96
vocab_size = 1000

[job]
stages = 2
layers_per_stage = [2, 4]
microbatch_size = 4
sequence_length = 512
dtype = "float16"
recompute = "full"
split_backward = true
comm_sms = [8]
"""

Write = Callable[..., Path]


def test_a_published_config_json_is_the_preset(write_model: Write) -> None:
    architecture, job = read_config_file(write_model(LLAMA_3B | {"name": "llama-3.2-3b"}))
    preset = PRESETS["llama-3.2-3b"]
    assert architecture.max_position_embeddings == 131072
    assert [getattr(architecture, name) for name in Architecture.__slots__[:-1]] == [
        getattr(preset, name) for name in Architecture.__slots__[:-1]
    ]
    assert job == {}


def test_gpt2_names_give_124_million_parameters(write_model: Write) -> None:
    """117 M in Radford et al. 2019 was a miscount; the released weights are 124.4 M, of which 0.1 M are biases."""
    architecture, _ = read_config_file(write_model(GPT2))
    assert architecture.parameters == pytest.approx(124.4e6, rel=0.001)
    assert (architecture.norm, architecture.position) == (Norm.LAYER, Position.LEARNED)
    assert architecture.hidden_act is Activation.GELU
    assert not architecture.gated_mlp


def test_a_toml_file_gives_model_and_job(write_model: Write) -> None:
    architecture, job = read_config_file(write_model(TOML, "small.toml"))
    assert (architecture.name, architecture.qk_norm, architecture.head_dim) == ("small", True, 32)
    assert job == {
        "stages": 2,
        "layers_per_stage": (2, 4),
        "microbatch_size": 4,
        "sequence_length": 512,
        "dtype": "float16",
        "recompute": "full",
        "split_backward": True,
        "comm_sms": (8,),
    }


def test_a_config_json_is_called_after_its_folder(tmp_path: Path, write_model: Write) -> None:
    (tmp_path / "llama").mkdir()
    assert read_config_file(write_model(LLAMA_3B, "llama/config.json"))[0].name == "llama"


def test_sizes_that_can_be_derived_may_be_absent(write_model: Write) -> None:
    given = {
        name: value for name, value in LLAMA_3B.items() if name not in {"head_dim", "num_key_value_heads"}
    }
    architecture, _ = read_config_file(write_model(given))
    assert (architecture.head_dim, architecture.num_key_value_heads) == (128, 24)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_sise": 8}, "my-model.json: unknown key 'hidden_sise': did you mean 'hidden_size'\\?$"),
        ({"num_layers": 8}, "unknown key 'num_layers': did you mean 'num_hidden_layers'\\?$"),
        ({"zzz": 8}, "unknown key 'zzz': remove it if it changes nothing about the layers$"),
        ({"stages": 2}, "'stages' is a setting of the job; put it into the table 'job'$"),
        ({"hidden_size": None}, "missing field @ \\$.hidden_size|expected an integer"),
        ({"hidden_size": 3072.0}, "expected an integer, found 3072.0 @ \\$.hidden_size"),
        ({"vocab_size": 0}, "expected at least 1, found 0 @ \\$.vocab_size"),
        ({"hidden_act": "tanh"}, "'tanh' is none of gelu"),
        ({"tie_word_embeddings": "yes"}, "expected true or false, found 'yes' @ \\$.tie_word_embeddings"),
        ({"n_embd": 768}, "n_embd 768 contradicts \\$.hidden_size 3072"),
        (
            {"sliding_window": 4096},
            "attention over a window of 4096 tokens is not modelled; remove the key if",
        ),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layers of type 'linear_attention'"),
        (
            {"num_attention_heads": 25, "head_dim": None},
            "hidden_size 3072 is not divisible by .*; give head_dim$",
        ),
        ({"job": {"stage": 2}}, "unknown field 'stage': did you mean 'stages'\\? @ \\$.job"),
        ({"job": {"zzz": 2}}, "unknown field 'zzz': known are attention, chunks"),
        ({"job": [2]}, "expected an object @ \\$.job"),
        ({"job": {"stages": 0}}, "expected at least 1, found 0 @ \\$.job.stages"),
        ({"job": {"split_backward": 1}}, "expected true or false, found 1 @ \\$.job.split_backward"),
    ],
)
def test_files_that_cannot_be_are_refused_by_file_and_key(
    write_model: Write, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FileFormatError, match=problem):
        read_config_file(write_model(LLAMA_3B | changes))


def test_a_window_that_is_off_and_layers_of_full_attention_are_fine(write_model: Write) -> None:
    changes = {"sliding_window": 4096, "use_sliding_window": False, "layer_types": ["full_attention"] * 28}
    assert read_config_file(write_model(LLAMA_3B | changes))[0].num_hidden_layers == 28


def test_sizes_that_contradict_each_other_name_the_file(write_model: Write) -> None:
    with pytest.raises(WorkloadError, match=r"my-model.json: num_attention_heads 24 is not a multiple"):
        read_config_file(write_model(LLAMA_3B | {"num_key_value_heads": 5}))


def test_dtype_is_a_key_of_published_files_but_misplaced_in_toml(write_model: Write) -> None:
    assert read_config_file(write_model(LLAMA_3B | {"dtype": "bfloat16"}))[1] == {}
    with pytest.raises(FileFormatError, match="'dtype' is a setting of the job"):
        read_config_file(write_model('dtype = "float16"\n' + TOML, "small.toml"))


def test_a_linked_config_json_is_called_after_the_folder_of_the_link(
    tmp_path: Path, write_model: Write
) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama/config.json").symlink_to(write_model(LLAMA_3B, "blobs/0f1e"))
    assert read_config_file(tmp_path / "llama/config.json")[0].name == "llama"


@pytest.mark.parametrize(("content", "name"), [("[1]", "list.json"), ("{", "cut.json"), ("a =", "cut.toml")])
def test_what_is_not_an_object_is_refused(write_model: Write, content: str, name: str) -> None:
    with pytest.raises(FileFormatError, match=name):
        read_config_file(write_model(content, name))
