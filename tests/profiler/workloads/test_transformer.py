"""The ops of a workload: which stage does what, and whether the operations add up to published formulas."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.profiler.workloads.architecture import Architecture, Position
from energyopt.profiler.workloads.interface import Collective, Workload, WorkloadOp
from energyopt.profiler.workloads.job import job_shape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload
from energyopt.schemas.errors import WorkloadError

Build = Callable[..., Workload]
Find = Callable[..., WorkloadOp]
Layout = Callable[[WorkloadOp], dict[str, list[str]]]
Flops = Callable[[Workload, str], float]


@pytest.mark.parametrize(("recompute", "factor"), [("none", 72), ("full", 96)])
def test_gpt3_takes_the_operations_of_narayanan_2021(
    matrix_flops: Flops, recompute: str, factor: int
) -> None:
    """Equation 3 there: 96 B s l h^2 (1 + s/6h + V/16lh) with layers recomputed, V padded to 51,200.

    The factor of the layers is 72 without; the head's 6 B s h V is never recomputed. Attention is counted whole.
    """
    batch, sequence, hidden, layers, vocabulary = 2, 2048, 12288, 96, 51200
    settings: dict[str, Any] = {
        "attention": "unfused",
        "recompute": recompute,
        "tensor_parallel": 8,
        "stages": 8,
    }
    workload = transformer_workload(PRESETS["gpt3-175b"], job_shape(settings | {"microbatch_size": batch}))
    of_layers = factor * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden))
    expected = of_layers + 6 * batch * sequence * hidden * vocabulary
    assert 8 * matrix_flops(workload, "") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["llama-3.2-3b", "llama-3.3-70b", "qwen3-1.7b", "gpt3-xl"])
def test_fused_causal_attention_counts_half(matrix_flops: Flops, name: str) -> None:
    """2 N operations per token forward and 4 N backward; attention 4 and 10 a d s / 2 per token and layer."""
    model = PRESETS[name]
    workload = transformer_workload(model, job_shape({"stages": 4, "sequence_length": 2048}))
    padded = -(-model.vocab_size // 128) * 128
    weights = model.num_hidden_layers * model.layer_matrix_parameters + padded * model.hidden_size
    width = model.num_hidden_layers * model.num_attention_heads * model.head_dim * 2048
    assert matrix_flops(workload, "forward") == pytest.approx(2048 * (2 * weights + 4 * width / 2))
    assert matrix_flops(workload, "backward") == pytest.approx(2048 * (4 * weights + 10 * width / 2))


@pytest.mark.parametrize("degrees", [(2, 1), (1, 2), (2, 2)])
def test_parallel_ranks_share_the_operations_evenly(
    workload: Build, matrix_flops: Flops, degrees: tuple[int, int]
) -> None:
    tensor, context = degrees
    settings = {"tensor_parallel": tensor, "context_parallel": context}
    for attention in ("fused", "unfused"):
        alone = workload({"vocab_size": 256}, attention=attention)
        shared = workload({"vocab_size": 256}, attention=attention, **settings)
        assert shared.gpus_per_stage == tensor * context
        for kind in ("forward", "backward"):
            assert tensor * context * matrix_flops(shared, kind) == pytest.approx(matrix_flops(alone, kind))


@pytest.mark.parametrize(
    "settings", [{}, {"tensor_parallel": 2, "context_parallel": 2}, {"recompute": "full"}]
)
def test_a_split_backward_does_the_work_of_a_whole_one(workload: Build, settings: dict[str, Any]) -> None:
    def work(built: Workload) -> dict[str, int]:
        found: dict[str, int] = {}
        for op in built.ops:
            for use in op.partitions:
                for one in use.partition.kernels:
                    if op.kind.startswith("backward"):
                        found[one.kernel.name] = found.get(one.kernel.name, 0) + use.count * one.count
        return found

    split = workload(split_backward=True, stages=2, **settings)
    assert {str(op.kind) for op in split.ops} == {"forward", "backward_input", "backward_weight"}
    assert work(split) == work(workload(stages=2, **settings))


def test_weight_gradients_alone_are_left_for_the_weights(
    workload: Build, op_of: Find, layout: Layout
) -> None:
    built = workload(split_backward=True)
    assert layout(op_of(built, "backward_weight")) == {
        "head": ["output_head.wgrad"],
        "mlp": ["down_proj.wgrad", "gate_up_proj.wgrad"],
        "attention": ["out_proj.wgrad", "qkv_proj.wgrad"],
        "embedding": ["embedding.backward"],
    }
    inputs = layout(op_of(built, "backward_input"))
    assert not any(name.endswith("wgrad") for names in inputs.values() for name in names)


def test_the_partitions_of_one_gpu(workload: Build, op_of: Find, layout: Layout) -> None:
    built = workload({"qk_norm": True})
    assert layout(op_of(built, "forward")) == {
        "embedding": ["embedding"],
        "attention": ["norm", "qkv_proj", "qk_norm", "rope", "attention", "out_proj", "residual_add"],
        "mlp": ["norm", "gate_up_proj", "activation", "down_proj", "residual_add"],
        "head": ["norm", "output_head", "loss"],
    }
    assert list(layout(op_of(built, "backward"))) == ["head", "mlp", "attention", "embedding"]
    counts = {use.partition.name: use.count for use in op_of(built, "forward").partitions}
    assert counts == {"embedding": 1, "attention": 4, "mlp": 4, "head": 1}


def test_a_gpt_has_learned_positions_and_one_projection_up(
    workload: Build, op_of: Find, layout: Layout
) -> None:
    changes = {"position": Position.LEARNED, "max_position_embeddings": 64, "gated_mlp": False}
    found = layout(op_of(workload(changes), "forward"))
    assert found["embedding"] == ["embedding", "position_add"]
    assert "rope" not in found["attention"]
    assert "up_proj" in found["mlp"]


def test_chunks_follow_the_model_across_the_stages(workload: Build) -> None:
    built = workload(stages=2, chunks=2, layers_per_stage=(0, 1, 1, 2))
    layers = {
        (op.stage, op.chunk): {use.partition.name: use.count for use in op.partitions}
        for op in built.ops
        if op.kind == "forward"
    }
    assert layers == {
        (0, 0): {"embedding": 1},
        (1, 0): {"attention": 1, "mlp": 1},
        (0, 1): {"attention": 1, "mlp": 1},
        (1, 1): {"attention": 2, "mlp": 2, "head": 1},
    }


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("sequence_parallel", [True, False])
@pytest.mark.parametrize("context_parallel", [1, 2])
@pytest.mark.parametrize("split", [True, False])
def test_no_partition_communicates_twice_and_names_are_unique(
    workload: Build, recompute: str, sequence_parallel: bool, context_parallel: int, split: bool
) -> None:
    built = workload(
        tensor_parallel=2,
        context_parallel=context_parallel,
        recompute=recompute,
        sequence_parallel=sequence_parallel,
        split_backward=split,
        stages=2,
    )
    for op in built.ops:
        names = [use.partition.name for use in op.partitions]
        assert len(names) == len(set(names))
        for use in op.partitions:
            kernels = [one.kernel for one in use.partition.kernels]
            assert sum(kernel.communication is not None for kernel in kernels) <= 1
            assert len({kernel.name for kernel in kernels}) == len(kernels)


def _exchanges(op: WorkloadOp, layers: int) -> dict[Collective, int]:
    found: dict[Collective, int] = {}
    for use in op.partitions:
        for one in use.partition.kernels:
            if (talk := one.kernel.communication) and talk.group == "tensor" and use.count == layers:
                found[talk.collective] = found.get(talk.collective, 0) + one.count
    return found


def test_a_layer_exchanges_what_megatron_exchanges(workload: Build, op_of: Find) -> None:
    """Two all-reduces each way (Shoeybi et al. 2019); with sequence parallelism two all-gathers and two
    reduce-scatters each way, and two all-gathers more for the weights' gradients (Korthikanti et al. 2022).
    """
    plain = workload(tensor_parallel=2, sequence_parallel=False)
    for kind in ("forward", "backward"):
        assert _exchanges(op_of(plain, kind), 4) == {Collective.ALL_REDUCE: 2}
    sharded = workload(tensor_parallel=2)
    pair = {Collective.ALL_GATHER: 2, Collective.REDUCE_SCATTER: 2}
    assert _exchanges(op_of(sharded, "forward"), 4) == pair
    assert _exchanges(op_of(sharded, "backward"), 4) == pair | {Collective.ALL_GATHER: 4}


def test_messages_are_activations_and_whole_keys_and_values(workload: Build) -> None:
    kernels = {one.name: one for one in workload(tensor_parallel=2, context_parallel=2).kernels()}
    tensor, context = kernels["tensor_all_gather"].communication, kernels["context_all_gather"].communication
    assert tensor is not None
    assert context is not None
    assert (
        tensor.message_bytes == 2 * (64 / 2) * 32 * 2
    )  # sequences x tokens of this rank x hidden x bfloat16
    assert context.message_bytes == 2 * 64 * (2 * 1 * 16) * 2  # all tokens, keys and values of one head


def test_what_recomputation_repeats(workload: Build, op_of: Find, layout: Layout) -> None:
    selective = layout(op_of(workload(recompute="selective"), "backward"))
    assert "attention" in selective["attention"]
    full = layout(op_of(workload(recompute="full"), "backward"))
    forward = layout(op_of(workload(), "forward"))
    assert full["attention_recompute"] == forward["attention"]
    assert full["mlp_recompute"] == forward["mlp"]
    assert full["attention"] == layout(op_of(workload(), "backward"))["attention"]


def test_communication_comes_at_each_asked_sm_count_besides(workload: Build) -> None:
    built = workload(tensor_parallel=2, sequence_parallel=False, comm_sms=(4, 8))
    assert [one.name for one in built.variants] == ["tensor_all_reduce@4sms", "tensor_all_reduce@8sms"]
    assert [one.communication.sms for one in built.variants if one.communication] == [4, 8]
    assert set(built.variants) <= set(built.kernels())
    in_ops = [k.kernel for op in built.ops for use in op.partitions for k in use.partition.kernels]
    assert all(one.communication.sms is None for one in in_ops if one.communication)


def test_settings_say_what_was_measured(workload: Build) -> None:
    assert workload(stages=2).settings == {
        "model": "tiny",
        "tp": 1,
        "cp": 1,
        "microbatch_size": 2,
        "sequence_length": 64,
        "dtype": "bfloat16",
        "layers_per_stage": "2,2",
        "recompute": "none",
        "attention": "fused",
        "sequence_parallel": "off",
    }


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"tensor_parallel": 4}, "num_key_value_heads 2 is not divisible by tensor_parallel 4"),
        ({"context_parallel": 3}, "sequence_length 64 is not divisible by 2 x context_parallel = 6"),
        ({"tensor_parallel": 2, "sequence_length": 63}, "sequence_length 63 is not divisible by tensor x"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(
    workload: Build, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(WorkloadError, match=problem):
        workload(**settings)


def test_a_table_of_positions_limits_the_sequence(tiny: Callable[..., Architecture]) -> None:
    learned = tiny(position=Position.LEARNED, max_position_embeddings=32)
    with pytest.raises(WorkloadError, match="sequence_length 64 exceeds the 32 learned positions of tiny"):
        transformer_workload(learned, job_shape({"sequence_length": 64}))
