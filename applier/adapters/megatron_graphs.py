"""CUDA graphs of whole Megatron-Core iterations (0.14 and newer): a replay calls no schedule and no step.

Its operations cannot be clocked one by one, so a replay is an iteration of no microbatches, for which no plan is.
"""

import sys
from functools import partial
from typing import Any

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.adapters.patching import Function, wrap
from energyopt.applier.runtime.facts import Describe


def hook_graph_replay(hooks: Hooks, describe: Describe) -> None:
    """Hook the wrapper that captures and replays, if the job has loaded it; done once, cheap afterwards."""
    wrapper = getattr(sys.modules.get("megatron.core.full_cuda_graph"), "FullCudaGraphWrapper", None)
    if wrapper is not None:
        wrap(wrapper, "__call__", partial(_hook_call, wrapper, hooks, describe))


def _hook_call(wrapper: Any, hooks: Hooks, describe: Describe, original: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        training = not kwargs.get("forward_only")
        if not _is_captured(wrapper, training):
            return original(*args, **kwargs)  # which calls the schedule, and captures it in time
        with quiet_block(lambda: hooks.iteration(describe, 0, training=training)):
            return original(*args, **kwargs)

    return call


def _is_captured(wrapper: Any, training: bool) -> bool:
    with QUIETLY:
        graphs = getattr(wrapper, "cuda_graph", None)
        return isinstance(graphs, dict) and bool(graphs.get("training" if training else "validation"))
    return False
