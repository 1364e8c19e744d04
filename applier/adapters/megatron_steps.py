"""Wrappers around Megatron-Core's steps and schedules.

A backward step is told neither microbatch nor chunk: its output tensor is recognised as the one that a forward
step returned. Outside of a training iteration every wrapper but the schedules' only passes the call on.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from types import ModuleType
from typing import Any

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.adapters.megatron_facts import is_capturing
from energyopt.applier.adapters.megatron_graphs import hook_graph_replay
from energyopt.applier.adapters.patching import Function, passing_for
from energyopt.applier.runtime.facts import RunFacts
from energyopt.schemas.ops import OpKind

Place = tuple[int, int]  # microbatch, chunk
Read = Callable[[tuple[Any, ...], dict[str, Any]], Any]
ReadPlace = Callable[[tuple[Any, ...], dict[str, Any]], Place | None]

RANK_OF_CHUNK = "get_virtual_pipeline_model_parallel_rank"
COMBINED_ARGUMENTS = ("f_model", "b_model", "b_output_tensor", "f_model_chunk_id", "current_microbatch")
# looking a member up costs 0.2 us at each operation
_FORWARD, _BACKWARD, _BOTH = OpKind.FORWARD, OpKind.BACKWARD, OpKind.FORWARD_BACKWARD


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

    def forward_backward(*args: Any, **kwargs: Any) -> Any:
        microbatches = kwargs.get("num_microbatches")
        if not isinstance(microbatches, int):
            return original(*args, **kwargs)  # which says what is wrong
        facts, training = partial(describe, kwargs), False
        with QUIETLY:
            hook_graph_replay(steps.hooks, facts)
            # what a graph captures does not run now; it runs when the graph is replayed
            training = not kwargs.get("forward_only") and not is_capturing()
        with quiet_block(lambda: steps.hooks.iteration(facts, microbatches, training=training)):
            steps.training = training
            try:
                return original(*args, **kwargs)
            finally:
                steps.stop()

    return passing_for(original, forward_backward)


def hook_forward(original: Function, steps: Steps, parallel_state: ModuleType) -> Function:
    """Wrap `forward_step`."""
    microbatch_of, chunk_of = _argument(original, "current_microbatch"), _chunk_of(original, parallel_state)

    def place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
        microbatch = microbatch_of(args, kwargs)
        return None if microbatch is None else (microbatch, chunk_of(args, kwargs) or 0)

    return _operation(original, steps, place, _no_part)


def _chunk_of(forward_step: Function, parallel_state: ModuleType) -> Read:
    if "vp_stage" in signature(forward_step).parameters:
        return _argument(forward_step, "vp_stage")
    rank_of_chunk = getattr(parallel_state, RANK_OF_CHUNK)  # before 0.13 the schedule sets a global
    return lambda _args, _kwargs: rank_of_chunk()


def hook_backward(original: Function, steps: Steps) -> Function:
    """Wrap `backward_step`."""
    output_of = _argument(original, "output_tensor")
    return _operation(original, steps, _no_part, lambda args, kwargs: steps.take(output_of(args, kwargs)))


def hook_combined(original: Function, steps: Steps) -> Function:
    """Wrap the step that runs a forward, a backward, or both at once, each of a microbatch of its own."""
    read = {name: _argument(original, name) for name in COMBINED_ARGUMENTS}

    def forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
        if read["f_model"](args, kwargs) is None:
            return None
        return read["current_microbatch"](args, kwargs), read["f_model_chunk_id"](args, kwargs) or 0

    def backward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Place | None:
        if read["b_model"](args, kwargs) is None:
            return None
        return steps.take(read["b_output_tensor"](args, kwargs))

    return _operation(original, steps, forward, backward)


def _no_part(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Place | None:
    return None


def _operation(original: Function, steps: Steps, forward_of: ReadPlace, backward_of: ReadPlace) -> Function:
    """Wrap a step whose call is an operation, by the places of the forward and of the backward in it."""

    def step(*args: Any, **kwargs: Any) -> Any:
        forward, begun = None, False
        if steps.training:
            with QUIETLY:
                forward = forward_of(args, kwargs)
                begun = _begin(steps.hooks, forward, backward_of(args, kwargs))
        if not begun:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        finally:
            with QUIETLY:
                steps.hooks.end()
        if forward:
            with QUIETLY:
                steps.launched(result, forward)
        return result

    return passing_for(original, step)


def _begin(hooks: Hooks, forward: Place | None, backward: Place | None) -> bool:
    if forward and backward:
        hooks.begin(_BOTH, *forward, backward[1], backward[0])
    elif forward:
        hooks.begin(_FORWARD, *forward)
    elif backward:
        hooks.begin(_BACKWARD, *backward)
    return bool(forward or backward)
