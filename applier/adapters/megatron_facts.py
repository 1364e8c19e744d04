"""What a Megatron-Core job says about itself."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.patching import framework_name
from energyopt.applier.runtime.facts import RunFacts

FRAMEWORK = ("megatron-core", "megatron.core.package_info")
"""The distribution, and what tells the version of a source tree."""


def is_capturing() -> bool:
    """Whether what is launched now goes into a CUDA graph."""
    cuda = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def describe_run(module: ModuleType, schedule: str, arguments: dict[str, Any]) -> RunFacts:
    """Describe this rank from the schedule's module and the arguments of a call of the schedule.

    Process groups in the arguments (0.14 and newer) come before Megatron's global ones.
    """
    state, distributed = module.parallel_state, sys.modules["torch"].distributed
    models = arguments["model"] if isinstance(arguments["model"], list) else [arguments["model"]]
    groups = _groups(arguments)
    stages = _ask(groups, "pp", "size", state.get_pipeline_model_parallel_world_size)
    context = _ask(groups, "cp", "size", state.get_context_parallel_world_size)
    with_context = _ask(
        groups, "dp_cp", "size", lambda: state.get_data_parallel_world_size(with_context_parallel=True)
    )
    return RunFacts(
        framework=framework_name(*FRAMEWORK),
        rank=distributed.get_rank(),
        world_size=distributed.get_world_size(),
        stage=_ask(groups, "pp", "rank", state.get_pipeline_model_parallel_rank),
        stages=stages,
        chunks=len(models),
        microbatches=arguments["num_microbatches"],
        schedule=schedule if _is_plain(module.get_model_config(models[0]), stages, len(models)) else None,
        tensor_parallel=_ask(groups, "tp", "size", state.get_tensor_model_parallel_world_size),
        context_parallel=context,
        data_parallel=with_context // context,
        device_ordinal=_device_ordinal(),
    )


def _groups(arguments: dict[str, Any]) -> dict[str, Any]:
    """Process groups that the caller chose: pipeline, tensor, context, data and context."""
    given = arguments.get("pg_collection") or arguments.get("grad_finalize_pgs")
    groups = {name: getattr(given, name, None) for name in ("pp", "tp", "cp", "dp_cp")}
    pipeline = getattr(arguments.get("p2p_communicator"), "pp_group", None)
    return groups | ({"pp": pipeline} if pipeline else {})


def _ask(groups: dict[str, Any], name: str, question: str, otherwise: Callable[[], int]) -> int:
    group = groups[name]
    return otherwise() if group is None else int(getattr(group, question)())


def _is_plain(config: Any, stages: int, chunks: int) -> bool:
    """Whether the order of operations is the one that energyopt's name stands for."""
    if getattr(config, "overlap_moe_expert_parallel_comm", False):
        return False  # combined forward-backward
    if getattr(config, "hybrid_context_parallel", False):
        return False  # as many steps as the lengths of the sequences ask for
    return chunks == 1 or getattr(config, "microbatch_group_size_per_vp_stage", None) in {None, stages}


def _device_ordinal() -> int | None:
    cuda = sys.modules["torch"].cuda
    return int(cuda.current_device()) if cuda.is_initialized() else None
