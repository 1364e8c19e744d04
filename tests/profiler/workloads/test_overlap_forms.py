"""Transformers whose communication can run beside compute kernels: cut microbatches, and sharded weights."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.profiler.workloads.communication import without_communication
from energyopt.profiler.workloads.composites import launch_names, overlappable
from energyopt.profiler.workloads.interface import Collective, PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import JobShape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.schemas.errors import WorkloadError

Build = Callable[..., Workload]
Find = Callable[..., WorkloadOp]
Uses = tuple[PartitionUse, ...]


def _counts(uses: Uses) -> dict[str, int]:
    return {use.partition.name: use.count for use in uses}


def _work(uses: Uses) -> tuple[float, float]:
    """Operations of an op, and bytes that it sends."""
    kernels = [(one.kernel, use.count * one.count) for use in uses for one in use.partition.kernels]
    flops = sum(kernel.flops * count for kernel, count in kernels)
    sent = sum(
        kernel.communication.message_bytes * count for kernel, count in kernels if kernel.communication
    )
    return flops, sent


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("attention", ["fused", "unfused"])
@pytest.mark.parametrize("degrees", [(2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("split_backward", [False, True])
def test_the_cut_form_does_the_same_work_in_halves(
    workload: Build, recompute: str, attention: str, degrees: tuple[int, int], split_backward: bool
) -> None:
    tensor, context = degrees
    built = workload(
        tensor_parallel=tensor,
        context_parallel=context,
        recompute=recompute,
        attention=attention,
        split_backward=split_backward,
        stages=2,
    )
    assert any(op.split for op in built.ops)
    for op in built.ops:
        if not op.split:  # gradients of weights, where no keys or sums are exchanged for them
            assert str(op.kind) == "backward_weight" and tensor == 1
            continue
        assert _work(op.split) == pytest.approx(_work(op.partitions))
        whole, cut = _counts(op.partitions), _counts(op.split)
        extras = {"embedding", "head", "head_dgrad", "head_wgrad"}
        assert cut == {name: count if name in extras else 2 * count for name, count in whole.items()}
        assert op.nanobatches == 2


def test_layers_that_communicate_can_begin_it_anywhere_and_extras_run_whole(
    workload: Build, op_of: Find
) -> None:
    built = workload(tensor_parallel=2, comm_sms=(4, 8))
    op = op_of(built, "forward")
    cut = {use.partition.name: use.partition for use in op.split}
    assert cut["attention_qkv"].launch_points == ("norm", "qkv_proj", "rope", "attention")
    assert cut["mlp_down"].launch_points == ("down_proj", "residual_add")
    whole = {use.partition.name: use.partition for use in op.partitions}
    for extra in ("embedding", "head"):
        assert cut[extra] is whole[extra]
        assert cut[extra].launch_points == ()
    assert {use.partition.name for use, _ in overlappable(op)} == set(cut) - {"embedding", "head"}
    assert all(one.comm_sms == (4, 8) for one in cut.values() if one.launch_points)
    assert all(not one.launch_points for one in whole.values())  # what runs whole waits for its own


def test_what_is_recomputed_is_the_forward_s(workload: Build, op_of: Find) -> None:
    """The same kernels, so that a partition is measured once for both."""
    built = workload(tensor_parallel=2, recompute="full")
    forward = {use.partition.name: use.partition for use in op_of(built, "forward").split}
    backward = {use.partition.name: use.partition for use in op_of(built, "backward").split}
    for name, partition in forward.items():
        if name.startswith(("attention_", "mlp_")):
            again = backward[name.replace("_", "_recompute_", 1)]
            assert again.kernels == partition.kernels
            assert again.launch_points == partition.launch_points


@pytest.mark.parametrize("settings", [{}, {"tensor_parallel": 2, "microbatch_size": 3}, {"data_parallel": 2}])
def test_what_is_not_cut(workload: Build, settings: dict[str, Any]) -> None:
    assert all(op.split == () for op in workload(**settings).ops)


def test_a_chunk_without_layers_is_not_cut(workload: Build, op_of: Find) -> None:
    built = workload(tensor_parallel=2, stages=2, layers_per_stage=(0, 4))
    assert op_of(built, "forward", stage=0).split == ()
    assert op_of(built, "forward", stage=1).split


def test_without_communication_there_is_nothing_to_cut_for(workload: Build) -> None:
    assert all(op.split == () for op in without_communication(workload(tensor_parallel=2)).ops)


def test_cut_kernels_are_none_of_those_that_are_measured_anyway(workload: Build) -> None:
    even, odd = workload(tensor_parallel=2), workload(tensor_parallel=2, microbatch_size=3)
    assert [one.name for one in even.kernels()] == [one.name for one in odd.kernels()]
    in_whole = {one.kernel for op in even.ops for use in op.partitions for one in use.partition.kernels}
    assert set(even.kernels()) == in_whole


def _talking(op: WorkloadOp) -> dict[str, Collective]:
    return {
        use.partition.name: one.kernel.communication.collective
        for use in op.partitions
        for one in use.partition.kernels
        if one.kernel.communication is not None
    }


def test_sharded_weights_are_gathered_twice_and_their_gradients_scattered(
    workload: Build, op_of: Find
) -> None:
    """As ZeRO's third stage (Rajbhandari et al. 2020, section 7.2): three times the parameters per iteration."""
    built = workload(data_parallel=4)
    forward, backward = op_of(built, "forward"), op_of(built, "backward")
    assert _talking(forward) == {"layer": Collective.ALL_GATHER}
    assert _talking(backward) == {"mlp": Collective.ALL_GATHER, "attention": Collective.REDUCE_SCATTER}
    assert _counts(forward.partitions) == {"embedding": 1, "layer": 4, "head": 1}
    # attention 32 x (4 + 2 x 2) x 16 + 64 x 32, MLP 3 x 32 x 48, two norms of 32; bfloat16
    layer = 32 * 8 * 16 + 64 * 32 + 3 * 32 * 48 + 2 * 32
    assert _work(forward.partitions)[1] == 4 * 2 * layer
    assert _work(backward.partitions)[1] == 2 * 4 * 2 * layer
    for op in (forward, backward):
        for use, nanobatches in overlappable(op):
            assert use.partition.launch_points == launch_names(use.partition)
            assert nanobatches == 1
    assert (built.gpus_per_stage, built.replicas, built.gpus_together) == (1, 4, 4)


def test_sharded_weights_change_nothing_of_what_is_computed(workload: Build) -> None:
    for settings in ({}, {"recompute": "full"}, {"split_backward": True}):
        alone, sharded = workload(**settings), workload(data_parallel=2, **settings)
        for one, other in zip(alone.ops, sharded.ops, strict=True):
            assert one.kind is other.kind
            assert _work(one.partitions)[0] == pytest.approx(_work(other.partitions)[0])


def test_a_split_backward_gathers_for_the_input_and_scatters_for_the_weights(
    workload: Build, op_of: Find
) -> None:
    built = workload(data_parallel=2, split_backward=True, recompute="full")
    assert _talking(op_of(built, "backward_input")) == {"mlp": Collective.ALL_GATHER}
    assert _talking(op_of(built, "backward_weight")) == {"attention": Collective.REDUCE_SCATTER}
    assert "attention_recompute" in _counts(op_of(built, "backward_input").partitions)


def test_shards_are_padded_to_equal_size(workload: Build) -> None:
    talks = {one.communication for one in workload(data_parallel=7).kernels() if one.communication}
    assert len(talks) == 2
    for one in talks:
        assert one.message_bytes % (7 * 2) == 0
        assert 0 <= one.message_bytes / 2 - (32 * 8 * 16 + 64 * 32 + 3 * 32 * 48 + 2 * 32) < 7
    assert {(one.group, one.ranks) for one in talks} == {("data", 7)}


@pytest.mark.parametrize("other", ["tensor_parallel", "context_parallel"])
def test_sharded_weights_stand_alone(other: str) -> None:
    with pytest.raises(WorkloadError, match=f"data_parallel 2 cannot be measured together with .*{other} 2"):
        JobShape(data_parallel=2, **{other: 2})  # type: ignore[arg-type]


def test_the_degree_is_among_the_settings_where_weights_are_sharded(workload: Build) -> None:
    assert workload(data_parallel=2).settings["dp"] == 2
    assert "dp" not in workload(tensor_parallel=2).settings


@pytest.mark.parametrize("name", PRESETS)
def test_a_model_is_its_layers_a_norm_and_its_tables(name: str) -> None:
    model = PRESETS[name]
    norm = model.hidden_size * (2 if model.norm == "layer" else 1)
    rows = model.vocab_size * (1 if model.tie_word_embeddings else 2)
    if model.position == "learned":
        rows += model.max_position_embeddings or 0
    layers = model.num_hidden_layers * model.layer_parameters
    assert model.parameters == layers + norm + rows * model.hidden_size
