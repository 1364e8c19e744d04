"""What stands between a communication and that of its gradient, in a graph of its own. Imports torch.

On the way back it must not run as soon as autograd could run it, but once its gradient has been communicated beside
other kernels. So it is no part of the training's graph: a region's `Entry` runs its backward, inside its own, and
hands on the gradients of all that it took and of the weights that it uses. The training's graph knows all these as
inputs of `Entry`, and does with their gradients what it was asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.graph import GradientEdge, get_gradient_edge, saved_tensors_hooks


class _First(Function):
    """Where the graph begins. It is asked for the gradients that arrive here, and holds no tensor of its own."""

    @staticmethod
    def forward(_context: Any, _anchor: Any, *values: Any) -> Any:
        return values

    @staticmethod
    def backward(_context: Any, *gradients: Any) -> Any:
        return None, *gradients


class _Last(Function):
    """Hands out the gradients that the end is given."""

    @staticmethod
    def forward(context: Any, given: list[Any], first: Any, *_others: Any) -> Any:
        context.given = given
        return torch.empty(0, device=first.device)

    @staticmethod
    def backward(context: Any, _nothing: Any) -> Any:
        return (None, *context.given)


class Between:
    """A computation with its own backward.

    saved: what its backward needs, to be kept by somebody else.
    weights: tensors that it uses without being given them, and that need a gradient.
    """

    def __init__(self, then: Callable[..., Any], values: Sequence[Any], needed: Sequence[bool]) -> None:
        """Compute.

        Args:
            then: gives a tensor or a tuple of tensors.
            values: what it takes, tensors.
            needed: which of them need a gradient.

        Raises:
            ValueError: it uses what was computed before, with a gradient, and was not given to it.
        """
        self._given: list[Any] = []
        self.saved: list[Any] = []
        back = self._back = list[Any]()
        since = sequence_number()
        with (
            torch.enable_grad(),
            saved_tensors_hooks(self._keeper(self.saved), back.__getitem__),
            _own_casts(),
        ):
            marked = _marked(values, needed)
            outputs = then(*marked)
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            self._end = _Last.apply(self._given, *several)  # type: ignore[no-untyped-call]
            edges = [get_gradient_edge(one) if one.requires_grad else None for one in marked]
        self.weights = _weights(self._end, [one.node for one in edges if one is not None], since)
        self._edges = [*edges, *(get_gradient_edge(one) for one in self.weights)]
        self._outputs = tuple(one.detach() for one in several) if outputs is several else outputs.detach()

    def taken(self) -> Any:
        """What it gave, without a graph; once, since it is not held here."""
        outputs, self._outputs = self._outputs, None
        return outputs

    def backward(self, gradients: Sequence[Any], saved: Sequence[Any], *, keep: bool) -> tuple[Any, ...]:
        """The gradients of what it took, and then of its weights; None where there is none.

        Args:
            gradients: of its outputs.
            saved: what was to be kept.
            keep: whether there may be another backward.
        """
        asked = [one for one in self._edges if one is not None]
        if not asked or not self._end.requires_grad:
            return (None,) * len(self._edges)
        self._given[:], self._back[:] = gradients, saved
        try:
            with _unhooked(self.weights):
                found = iter(self._run(asked, keep=keep))
        finally:
            self._given.clear()
            self._back.clear()
        return tuple(None if one is None else next(found) for one in self._edges)

    def _run(self, asked: list[GradientEdge], *, keep: bool) -> tuple[Any, ...]:
        nothing = self._end.detach()
        return torch.autograd.grad(self._end, asked, nothing, retain_graph=keep, allow_unused=True)

    @staticmethod
    def _keeper(saved: list[Any]) -> Callable[[Any], int]:
        def keep(tensor: Any) -> int:
            saved.append(tensor)
            return len(saved) - 1

        return keep


def sequence_number() -> int:
    """A number between those of the nodes that this thread has made and those that it will make."""
    with torch.enable_grad():
        node = torch.empty(0, requires_grad=True).view(0).grad_fn
    assert node is not None
    return int(node._sequence_nr())


def _marked(values: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
    places = [place for place, one in enumerate(needed) if one]
    marked = [one.detach() for one in values]
    if places:
        anchor = torch.empty(0, device=values[0].device, requires_grad=True)
        new = _First.apply(anchor, *(marked[place] for place in places))  # type: ignore[no-untyped-call]
        for place, one in zip(places, new, strict=True):
            marked[place] = one
    return marked


def _weights(end: Any, first: Sequence[Any], since: int) -> tuple[Any, ...]:
    """The leaves that a graph ends at, but for where it was made to begin; once each, in a fixed order."""
    found: list[Any] = []
    seen = {None, *first}
    waiting = [end.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            found.append(node.variable)
        elif node._sequence_nr() < since:
            raise ValueError(
                f"`then` uses the result of an earlier computation ({node.name()}) that needs a gradient: give it "
                "to overlap() as an input after the communicated tensor, and take it as an argument"
            )
        else:
            waiting.extend(one for one, _ in node.next_functions)
    return tuple(found)


@contextmanager
def _own_casts() -> Iterator[None]:
    """Autocast keeps a weight's cast for whoever comes next: that would be part of two graphs."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
def _unhooked(weights: Sequence[Any]) -> Iterator[None]:
    """Without their hooks (`Tensor.register_hook`), which the training's own backward calls afterwards."""
    kept = [(hooks, dict(hooks)) for hooks in (one._backward_hooks for one in weights) if hooks]
    for hooks, _ in kept:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, own in kept:
            hooks.update(own)
