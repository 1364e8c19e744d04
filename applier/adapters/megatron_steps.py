"""Wrappers around Megatron-Core's steps and schedules.

A backward step is told neither microbatch nor chunk: its output tensor is recognised as the one that a forward
step returned. Outside of a training iteration every wrapper but the schedules' only passes the call on.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.adapters.megatron_facts import is_capturing
from energyopt.applier.adapters.megatron_graphs import hook_graph_replay
from energyopt.applier.runtime.facts import RunFacts
from energyopt.schemas.ops import OpKind

Function = Callable[..., Any]
Place = tuple[int, int]  # microbatch, chunk
Read = Callable[[tuple[Any, ...], dict[str, Any]], Any]

RANK_OF_CHUNK = "get_virtual_pipeline_model_parallel_rank"
_MARK = "hooked_by_energyopt"
# looking a member up costs 0.2 us at each operation
_FORWARD, _BACKWARD, _BOTH = OpKind.FORWARD, OpKind.BACKWARD, OpKind.FORWARD_BACKWARD


def is_hooked(function: Function) -> bool:
    """Whether this is a wrapper of ours."""
    return hasattr(function, _MARK)


class Steps:
    """What is known between the calls of an iteration: no tensors, and nothing once the iteration is over."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.training = False
        self.places: dict[int, Place] = {}  # by the id of a forward's output, which lives until its backward

    def stop(self) -> None:
        """Forget the iteration, whichever way it ended."""
        self.training = False
        self.places.clear()

    def launched(self, result: object, place: Place) -> None:
        """Remember whose output this is; steps return it first."""
        if isinstance(result, tuple) and result:
            self.places[_identity(result[0])] = place

    def take(self, output: object) -> Place | None:
        """The place of the forward that returned this output, once."""
        return self.places.pop(_identity(output), None)


def _identity(output: object) -> int:
    """That of the tensor: schedules without interleaving pass it in a list, and may change what is in that."""
    return id(output[0] if isinstance(output, list) and output else output)


def _argument(function: Function, name: str) -> Read:
    """Reads an argument of a call, however it was given."""
    parameters = signature(function).parameters
    position, default = list(parameters).index(name), parameters[name].default

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return kwargs[name] if name in kwargs else args[position] if position < len(args) else default

    return read


def hook_schedule(
    original: Function, steps: Steps, describe: Callable[[dict[str, Any]], RunFacts]
) -> Function:
    """Wrap a function that runs all microbatches of an iteration."""

    @wraps(original)
    def forward_backward(*args: Any, **kwargs: Any) -> Any:
        microbatches = kwargs.get("num_microbatches")
        if not isinstance(microbatches, int):
            return original(*args, **kwargs)  # which says what is wrong
        facts = partial(describe, kwargs)
        hook_graph_replay(steps.hooks, facts)
        # what a graph captures does not run now; it runs when the graph is replayed
        training = not kwargs.get("forward_only") and not is_capturing()
        with steps.hooks.iteration(facts, microbatches, training=training):
            steps.training = training
            try:
                return original(*args, **kwargs)
            finally:
                steps.stop()

    return forward_backward


def hook_forward(original: Function, steps: Steps, parallel_state: ModuleType) -> Function:
    """Wrap `forward_step`."""
    microbatch_of, chunk_of = _argument(original, "current_microbatch"), _chunk_of(original, parallel_state)

    @wraps(original)
    def forward_step(*args: Any, **kwargs: Any) -> Any:
        microbatch = microbatch_of(args, kwargs) if steps.training else None
        if microbatch is None:
            return original(*args, **kwargs)
        chunk = chunk_of(args, kwargs) or 0
        steps.hooks.begin(_FORWARD, microbatch, chunk)
        try:
            result = original(*args, **kwargs)
        finally:
            steps.hooks.end()
        steps.launched(result, (microbatch, chunk))
        return result

    setattr(forward_step, _MARK, True)
    return forward_step


def _chunk_of(forward_step: Function, parallel_state: ModuleType) -> Read:
    if "vp_stage" in signature(forward_step).parameters:
        return _argument(forward_step, "vp_stage")
    rank_of_chunk = getattr(parallel_state, RANK_OF_CHUNK)  # before 0.13 the schedule sets a global
    return lambda _args, _kwargs: rank_of_chunk()


def hook_backward(original: Function, steps: Steps) -> Function:
    """Wrap `backward_step`."""
    output_of = _argument(original, "output_tensor")

    @wraps(original)
    def backward_step(*args: Any, **kwargs: Any) -> Any:
        place = steps.take(output_of(args, kwargs)) if steps.training else None
        if place is None:
            return original(*args, **kwargs)
        steps.hooks.begin(_BACKWARD, place[0], place[1])
        try:
            return original(*args, **kwargs)
        finally:
            steps.hooks.end()

    return backward_step


def hook_combined(original: Function, steps: Steps) -> Function:
    """Wrap the step that runs a forward, a backward, or both at once, each of a microbatch of its own."""
    forward_model, backward_model = _argument(original, "f_model"), _argument(original, "b_model")
    microbatch_of, chunk_of = (
        _argument(original, "current_microbatch"),
        _argument(original, "f_model_chunk_id"),
    )
    output_of = _argument(original, "b_output_tensor")

    @wraps(original)
    def combined_forward_backward_step(*args: Any, **kwargs: Any) -> Any:
        forward = backward = None
        if steps.training and forward_model(args, kwargs) is not None:
            forward = (microbatch_of(args, kwargs), chunk_of(args, kwargs) or 0)
        if steps.training and backward_model(args, kwargs) is not None:
            backward = steps.take(output_of(args, kwargs))
        if not _begin(steps.hooks, forward, backward):
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        finally:
            steps.hooks.end()
        if forward:
            steps.launched(result, forward)
        return result

    return combined_forward_backward_step


def _begin(hooks: Hooks, forward: Place | None, backward: Place | None) -> bool:
    if forward and backward:
        hooks.begin(_BOTH, *forward, backward[1], backward[0])
    elif forward:
        hooks.begin(_FORWARD, *forward)
    elif backward:
        hooks.begin(_BACKWARD, *backward)
    return bool(forward or backward)
