"""The nodes that a region has in autograd's graph (see `gradients`). With `between` what imports torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from energyopt.applier.overlap.gradients import Gradients


class Entry(Function):
    """Where a region begins. Gives a tensor without elements, which ties `Exit` to it."""

    @staticmethod
    def forward(context: Any, gradients: Gradients, _anchor: Any, tensor: Any, *_inputs: Any) -> Any:
        """Remember whose gradients these will be."""
        context.gradients = gradients
        return tensor.new_empty(0)

    @staticmethod
    @once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
    def backward(context: Any, _nothing: Any) -> Any:
        """Wait for the communication."""
        return (None, None, *context.gradients.joined())


class Exit(Function):
    """Where it is joined."""

    @staticmethod
    def forward(context: Any, gradients: Gradients, _tie: Any, join: Callable[[], Any]) -> Any:
        """Give what the region gives, and keep what the way back through it needs.

        Kept here it is like any tensor of the graph: activation checkpointing leaves it out, and computes it again.
        """
        context.gradients = gradients
        result = join()
        context.save_for_backward(*gradients.to_save())
        return result

    @staticmethod
    @once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
    def backward(context: Any, *arrived: Any) -> Any:
        """Hand the gradients over."""
        context.gradients.arrived(arrived, context.saved_tensors)
        return None, arrived[0].new_zeros(0), None


def enter(gradients: Gradients, tensor: Any, inputs: tuple[Any, ...]) -> Any:
    """The node where a region begins, as the tensor that ties the other one to it.

    The anchor has a gradient, whatever the others have: weights between the two may need theirs.
    """
    anchor = torch.empty(0, device=tensor.device, requires_grad=True)
    return Entry.apply(gradients, anchor, tensor, *inputs)  # type: ignore[no-untyped-call]


def leave(gradients: Gradients, tie: Any, join: Callable[[], Any]) -> Any:
    """The node where it is joined, as its outputs."""
    return Exit.apply(gradients, tie, join)  # type: ignore[no-untyped-call]
