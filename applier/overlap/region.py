"""One partition of one part of a microbatch, with the communication of the other part beside its kernels.

    with session.overlap("mlp", REDUCE, communicators, attended) as region:
        hidden = region.launch_point("gate_up_proj", hidden)
        hidden = up(hidden)
        hidden = region.launch_point("down_proj", hidden, backward="activation.backward")
        hidden = down(hidden)
        attended = region.join()

The plan says before which of these kernels the communication starts, and in which communicator; without a plan it
runs at the start of the block, and is waited for there. The kernels must not need what it brings, nor the other way
round. The results are the same, bit for bit.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

from energyopt.applier.overlap.collectives import Exchange
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.gradients import Gradients
from energyopt.applier.overlap.pending import Pending
from energyopt.applier.overlap.ways import Ways

Then = Callable[..., Any]


class Region:
    """A block, entered once. All ranks of the communicators run the same ones in the same order."""

    def __init__(
        self,
        ways: Ways,
        partition: str,
        exchange: Exchange,
        communicators: Communicators,
        tensor: Any,
        inputs: tuple[Any, ...] = (),
        *,
        then: Then | None = None,
        backward: str | None = None,
        recompute: str | None = None,
    ) -> None:
        """See `Session.overlap`, which makes them."""
        if inputs and then is None:
            raise TypeError("inputs beside the communicated tensor are those of `then`, which is not given")
        self._ways, self._partition = ways, partition
        self._recompute = f"{partition}_recompute" if recompute is None else recompute
        self._exchange, self._communicators = exchange, communicators
        self._given: tuple[Any, ...] = (tensor, *inputs)
        self._then = None if tensor is None else then  # there is nothing to make anything of
        self._backward = partition if backward is None else backward
        self._pending: Pending | None = None
        self._gradients: Gradients | None = None
        self._watched = False
        self._joined = False
        self._result: Any = None

    def __enter__(self) -> Self:
        tensor = self._given[0]
        if tensor is not None and _needs_gradient(self._given, self._then):
            from energyopt.applier.overlap.between import sequence_number

            how = (self._ways, self._backward, self._exchange.backward, self._communicators)
            self._gradients = Gradients(*how, sequence_number())
            self._watched = self._ways.may_overlap(self._backward)
        name = self._recompute if _in_a_backward() else self._partition
        self._pending = Pending(self._ways, name, self._exchange.forward, self._communicators, tensor)
        return self

    def launch_point(
        self, kernel: str | None, tensor: Any = None, *, backward: str | tuple[str, ...] | None = None
    ) -> Any:
        """The named kernel comes next; the tensor is handed back as it is.

        Args:
            kernel: its name in the plan; None where only the backward has one here.
            tensor: what the kernel reads, to be met again in the backward as its gradient.
            backward: the kernels of the backward that begin where that gradient is known: those of the forward
                kernel before this one, such as `qkv_proj.dgrad` at the point before `rope`.
        """
        pending = self._pending
        if pending is not None and kernel == pending.at:
            pending.launch()
        if self._watched and backward is not None:
            self._watch(tensor, (backward,) if isinstance(backward, str) else backward)
        return tensor

    def join(self) -> Any:
        """The communicated tensor, or what `then` makes of it; waited for as torch waits. Once joined, the same."""
        if not self._joined:
            self._joined = True
            if self._gradients is None:
                self._result = self._collect(self._then)
            else:
                from energyopt.applier.overlap.nodes import leave

                then = _alone if self._then is None else partial(self._between, self._gradients)
                self._result = leave(self._gradients, self._given, partial(self._collect, then))
            self._given, self._then = (), None
        return self._result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.join()
        elif self._pending is not None:
            self._pending.abandon()

    def _collect(self, then: Then | None) -> Any:
        assert self._pending is not None, "joined before it was entered"
        result, self._pending = self._pending.result(), None
        return result if then is None else then(result, *self._given[1:])

    def _between(self, gradients: Gradients, *inputs: Any) -> Any:
        from energyopt.applier.overlap.between import Between

        assert self._then is not None
        gradients.between = Between(self._then, inputs, [one.requires_grad for one in self._given])
        return gradients.between.taken()

    def _watch(self, tensor: Any, kernels: tuple[str, ...]) -> None:
        """Its gradient is known right before the backward of what made it: torch calls hooks there."""
        gradients = self._gradients
        if gradients is not None and getattr(tensor, "requires_grad", False):
            tensor.register_hook(lambda _gradient: gradients.reached(kernels))


def _alone(tensor: Any) -> Any:
    """Where nothing is communicated, it is the very tensor that went in, which has its own place in the graph."""
    return tensor.detach()


def _in_a_backward() -> bool:
    """Whether autograd is at work: then a forward is one that is computed again (torch.utils.checkpoint)."""
    torch = sys.modules.get("torch")
    return torch is not None and torch._C._current_graph_task_id() != -1


def _needs_gradient(given: tuple[Any, ...], then: Then | None) -> bool:
    import torch

    return torch.is_grad_enabled() and (then is not None or given[0].requires_grad)
