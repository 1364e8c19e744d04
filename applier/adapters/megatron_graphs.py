"""CUDA graphs of whole Megatron-Core iterations (0.14 and newer): a replay calls no schedule and no step.

Its operations cannot be clocked one by one, so a replay is an iteration of no microbatches, for which no plan is.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.runtime.facts import Describe

_MARK = "hooked_by_energyopt"


def hook_graph_replay(hooks: Hooks, describe: Describe) -> None:
    """Hook the wrapper that captures and replays, if the job has loaded it; done once, cheap afterwards."""
    wrapper = getattr(sys.modules.get("megatron.core.full_cuda_graph"), "FullCudaGraphWrapper", None)
    if wrapper is not None and not hasattr(wrapper.__call__, _MARK):
        wrapper.__call__ = _hook_call(wrapper, wrapper.__call__, hooks, describe)


def _hook_call(
    wrapper: Any, original: Callable[..., Any], hooks: Hooks, describe: Describe
) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        training = not kwargs.get("forward_only")
        phase = "training" if training else "validation"
        if not isinstance(graphs := getattr(wrapper, "cuda_graph", None), dict) or not graphs.get(phase):
            return original(*args, **kwargs)  # which calls the schedule, and captures it in time
        with hooks.iteration(describe, 0, training=training):
            return original(*args, **kwargs)

    setattr(call, _MARK, True)
    return call
