"""Megatron-Core 0.12 and newer: the forward and backward steps of its pipeline schedules, combined ones included.

The schedules call `forward_step` and `backward_step` as globals of their module, the combined path likewise, so
one replacement there reaches every helper; modules that took a function by name are searched for it.
"""

import sys
from functools import partial
from inspect import signature
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.interface import Adapter, Hooks, MissingHookError
from energyopt.applier.adapters.megatron_facts import FRAMEWORK, describe_run
from energyopt.applier.adapters.megatron_steps import (
    COMBINED_ARGUMENTS,
    RANK_OF_CHUNK,
    Steps,
    hook_backward,
    hook_combined,
    hook_forward,
    hook_schedule,
)
from energyopt.applier.adapters.patching import Function, framework_name, is_hooked, require

COMBINED_STEP = "combined_forward_backward_step"
SCHEDULES = {
    "forward_backward_no_pipelining": "1f1b",
    "forward_backward_pipelining_without_interleaving": "1f1b",
    "forward_backward_pipelining_with_interleaving": "interleaved-1f1b",
}
"""Megatron's schedules by energyopt's names; one stage is a pipeline too."""
NEEDED = {
    "forward_step": ("current_microbatch",),
    "backward_step": ("output_tensor",),
    **dict.fromkeys(SCHEDULES, ("model", "num_microbatches", "forward_only")),
    "get_model_config": (),
}
"""Functions of the module and the arguments of theirs that the hooks read."""
NEEDED_COMBINED = {COMBINED_STEP: COMBINED_ARGUMENTS}
NEEDED_STATE = dict.fromkeys(
    (
        "get_pipeline_model_parallel_rank",
        "get_pipeline_model_parallel_world_size",
        "get_tensor_model_parallel_world_size",
        "get_context_parallel_world_size",
        "get_data_parallel_world_size",
    ),
    (),
)


def install(module: ModuleType, hooks: Hooks) -> None:
    """Hook `megatron.core.pipeline_parallel.schedules`; a second call changes nothing.

    Raises:
        MissingHookError: this version lacks a function, or an argument of it, that the hooks need.
    """
    combined = _combined_module(module)
    _check(module, combined)
    if not is_hooked(module.forward_step):
        _replace(_wrappers(module, combined, Steps(hooks)), module)


def _combined_module(module: ModuleType) -> ModuleType | None:
    """Where the step that runs a forward and a backward together is (0.14 and newer)."""
    schedule = getattr(module, "combined_1f1b_schedule_for_no_pipelining", None)
    return sys.modules[schedule.__module__] if schedule else None


def _check(module: ModuleType, combined: ModuleType | None) -> None:
    framework, state = framework_name(*FRAMEWORK), getattr(module, "parallel_state", None)
    require(framework, module, NEEDED)
    if state is None:
        raise MissingHookError(
            f"{framework} lacks {module.__name__}.parallel_state, which tells a rank's stage"
        )
    require(framework, state, NEEDED_STATE)
    if combined:
        require(framework, combined, NEEDED_COMBINED)
    if "vp_stage" not in signature(module.forward_step).parameters:
        require(framework, state, {RANK_OF_CHUNK: ()})


def _wrappers(module: ModuleType, combined: ModuleType | None, steps: Steps) -> dict[Function, Function]:
    wrappers = {
        module.forward_step: hook_forward(module.forward_step, steps, module.parallel_state),
        module.backward_step: hook_backward(module.backward_step, steps),
    }
    for name, schedule in SCHEDULES.items():
        function = getattr(module, name)
        wrappers[function] = hook_schedule(function, steps, partial(describe_run, module, schedule))
    if combined:
        function = getattr(combined, COMBINED_STEP)
        wrappers[function] = hook_combined(function, steps)
    return wrappers


def _replace(wrappers: dict[Function, Function], module: ModuleType) -> None:
    """Put the wrappers wherever the functions stand as a module's global."""
    by_id = {id(function): wrapper for function, wrapper in wrappers.items()}
    modules = [loaded for loaded in list(sys.modules.values()) if isinstance(loaded, ModuleType)]
    for loaded in [*modules, module]:
        # past the module's own lookup: a lazy module would import itself when it is asked for an attribute
        names: dict[str, Any] = ModuleType.__getattribute__(loaded, "__dict__")
        for name in [name for name, value in list(names.items()) if id(value) in by_id]:
            names[name] = by_id[id(names[name])]


ADAPTER = Adapter(name="megatron-core", module="megatron.core.pipeline_parallel.schedules", install=install)
