"""Every known version's signatures, on modules that call the steps as that version does."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.adapters.interface import MissingHookError
from energyopt.applier.adapters.megatron import ADAPTER


def test_microbatch_and_chunk_are_found(world: Any, hooks: Any) -> None:
    ADAPTER.install(world.module, hooks)
    assert world.iterate(2) == "data"
    places = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert hooks.iterations[0]["ops"] == [[kind, *p] for kind in ("forward", "backward") for p in places]
    assert hooks.iterations[0]["microbatches"] == 2


def test_a_run_is_described_by_megatrons_global_groups(world: Any, hooks: Any) -> None:
    ADAPTER.install(world.module, hooks)
    world.iterate(8)
    assert hooks.iterations[0]["facts"] == {
        "framework": f"megatron-core {world.version}",
        "rank": 13,
        "world_size": 48,
        "stage": 3,
        "stages": 4,
        "chunks": 2,
        "microbatches": 8,
        "schedule": "interleaved-1f1b",
        "tensor_parallel": 2,
        "context_parallel": 2,
        "data_parallel": 3,
        "device_ordinal": 1,
        "order": None,
    }


def group(size: int, rank: int = 0) -> SimpleNamespace:
    return SimpleNamespace(size=lambda: size, rank=lambda: rank)


@pytest.mark.parametrize("argument", ["grad_finalize_pgs", "pg_collection"])  # of 0.14, and of 0.15 and newer
def test_groups_in_the_call_come_first(newest: Any, hooks: Any, argument: str) -> None:
    ADAPTER.install(newest.module, hooks)
    chosen = SimpleNamespace(tp=group(1), cp=group(3), dp_cp=group(12))
    newest.iterate(8, p2p_communicator=SimpleNamespace(pp_group=group(4, rank=1)), **{argument: chosen})
    facts = hooks.iterations[0]["facts"]
    assert (facts["stage"], facts["stages"], facts["tensor_parallel"]) == (1, 4, 1)
    assert (facts["context_parallel"], facts["data_parallel"]) == (3, 4)


@pytest.mark.parametrize(
    "setting",
    [
        {"overlap_moe_expert_parallel_comm": True},
        {"hybrid_context_parallel": True},
        {"microbatch_group_size_per_vp_stage": 5},
    ],
)
def test_an_order_that_is_not_ours_has_no_name(newest: Any, hooks: Any, setting: dict[str, Any]) -> None:
    ADAPTER.install(newest.module, hooks)
    newest.iterate(8, model=[SimpleNamespace(config=SimpleNamespace(**setting))] * 2)
    assert hooks.iterations[0]["facts"]["schedule"] is None


@pytest.mark.parametrize(
    "name",
    [
        "forward_step",
        "backward_step",
        "forward_backward_no_pipelining",
        "forward_backward_pipelining_with_interleaving",
        "forward_backward_pipelining_without_interleaving",
        "get_model_config",
        "parallel_state",
    ],
)
def test_a_missing_point_is_named_and_nothing_is_hooked(world: Any, hooks: Any, name: str) -> None:
    delattr(world.module, name)
    with pytest.raises(MissingHookError, match=rf"^megatron-core {world.version} lacks .*{name}\b"):
        ADAPTER.install(world.module, hooks)
    assert not any(hasattr(value, "__wrapped__") for value in vars(world.module).values())


def test_a_missing_argument_is_named(newest: Any, hooks: Any) -> None:
    newest.combined.combined_forward_backward_step = lambda *_: None
    with pytest.raises(MissingHookError, match=r"combined_forward_backward_step\(b_output_tensor=\)"):
        ADAPTER.install(newest.module, hooks)
    newest.module.forward_step = lambda *_: None
    with pytest.raises(MissingHookError, match=r"schedules\.forward_step\(current_microbatch=\)"):
        ADAPTER.install(newest.module, hooks)


def test_missing_groups_are_named(world: Any, hooks: Any) -> None:
    del world.module.parallel_state.get_context_parallel_world_size
    with pytest.raises(MissingHookError, match=r"parallel_state\.get_context_parallel_world_size"):
        ADAPTER.install(world.module, hooks)


def test_without_vp_stage_the_global_rank_of_the_chunk_is_needed(newest: Any, hooks: Any) -> None:
    newest.module.forward_step = lambda current_microbatch: current_microbatch
    del newest.module.parallel_state.get_virtual_pipeline_model_parallel_rank
    with pytest.raises(MissingHookError, match=r"parallel_state\.get_virtual_pipeline"):
        ADAPTER.install(newest.module, hooks)


def test_the_combined_step_is_one_operation(newest: Any, hooks: Any) -> None:
    def run(_: int, **__: Any) -> None:
        step, first = newest.combined.combined_forward_backward_step, (None, None)
        output = step(*first, "model", 2, None, [], None, None, None, None, None, current_microbatch=0)[0]
        both = ("model", 2, None, [], "model", None, [output], None, None)
        output = step(*first, *both, f_model_chunk_id=1, current_microbatch=1)[0]
        step(*first, None, 2, None, [], "model", None, output, None, None)

    newest.run = run
    ADAPTER.install(newest.module, hooks)
    newest.iterate()
    assert hooks.iterations[0]["ops"] == [
        ["forward", 0, 0],
        ["forward_backward", 1, 1, 0, 0],
        ["backward", 1, 1],
    ]


@pytest.mark.parametrize("captured", [False, True])
def test_graphs_of_whole_iterations_are_not_planned(
    newest: Any, hooks: Any, torch: Any, monkeypatch: pytest.MonkeyPatch, captured: bool
) -> None:
    """The first call captures the schedule and the second replays it, or both warm up."""

    class FullCudaGraphWrapper:
        cuda_graph: dict[str, Any] = {"training": None, "validation": None}  # noqa: RUF012

        def __call__(self, **arguments: Any) -> str:
            if self.cuda_graph["training"]:
                return "replayed"
            torch.cuda.is_current_stream_capturing = lambda: captured
            result: str = newest.iterate(**arguments)
            torch.cuda.is_current_stream_capturing = lambda: False
            self.cuda_graph["training"] = captured
            return result

    module = ModuleType("megatron.core.full_cuda_graph")
    module.FullCudaGraphWrapper = FullCudaGraphWrapper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    ADAPTER.install(newest.module, hooks)
    run = FullCudaGraphWrapper()
    results = [run(num_microbatches=n, forward_only=False) for n in (2, 2)]
    assert results == (["data", "replayed"] if captured else ["data", "data"])
    seen = [(iteration["training"], iteration["microbatches"]) for iteration in hooks.iterations]
    assert seen == ([(False, 2), (True, 0)] if captured else [(True, 2), (True, 2)])
    assert [len(iteration["ops"]) for iteration in hooks.iterations] == ([0, 0] if captured else [8, 8])
