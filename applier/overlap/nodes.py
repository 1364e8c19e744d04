"""The nodes that a region has in autograd's graph (see `gradients`). With `between` what imports torch.

Both are made where the region is joined, since only then it is known which weights were used; `Entry` gets the
place in autograd's order of where the region began.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from energyopt.applier.overlap.gradients import Gradients


class Entry(Function):
    """Where a region begins. Gives a tensor without elements, which ties `Exit` to it."""

    @staticmethod
    def forward(context: Any, gradients: Gradients, tensor: Any, *_others: Any) -> Any:
        """Remember whose gradients these will be."""
        context.gradients = gradients
        return torch.empty(
            0, device=tensor.device
        )  # whatever is communicated, what has a gradient is no integer

    @staticmethod
    @once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
    def backward(context: Any, _nothing: Any) -> Any:
        """Wait for the communication."""
        return (None, *context.gradients.joined())


class Exit(Function):
    """Where it is joined."""

    @staticmethod
    def forward(context: Any, gradients: Gradients, tie: Any, taken: Callable[[], Any]) -> Any:
        """Give what the region gives, and keep what the way back through it needs.

        Kept here it is like any tensor of the graph: activation checkpointing leaves it out, and computes it again.
        """
        context.gradients, context.device = gradients, tie.device
        result = taken()
        context.save_for_backward(*gradients.to_save())
        return result

    @staticmethod
    @once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
    def backward(context: Any, *arrived: Any) -> Any:
        """Hand the gradients over."""
        context.gradients.arrived(arrived, context.saved_tensors)
        return None, torch.zeros(0, device=context.device), None


def leave(gradients: Gradients, given: tuple[Any, ...], collect: Callable[[], Any]) -> Any:
    """What a region gives, with its two nodes.

    Args:
        gradients: what the nodes share.
        given: what went in, the communicated tensor first.
        collect: waits for the communication, and gives what the region gives, without a graph.
    """
    with torch.no_grad():
        results = [collect()]
    tie = Entry.apply(gradients, *given, *gradients.weights())  # type: ignore[no-untyped-call]
    if tie.grad_fn is not None:
        if hasattr(tie.grad_fn, "_set_sequence_nr"):
            tie.grad_fn._set_sequence_nr(gradients.number)
        else:
            gradients.unordered()
    return Exit.apply(gradients, tie, results.pop)  # type: ignore[no-untyped-call]
