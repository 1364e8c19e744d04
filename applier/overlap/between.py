"""What stands between a communication and that of its gradient, in a graph of its own. Imports torch.

On the way back it must not run as soon as autograd could run it, but once its gradient has been communicated beside
other kernels. So it is no part of the training's graph: a region's `Entry` runs its backward, inside its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks


class _First(Function):
    """Keeps the gradients that arrive at the beginning; the graph itself holds no tensor of it."""

    @staticmethod
    def forward(
        context: Any, found: dict[int, Any], places: tuple[int, ...], _anchor: Any, *values: Any
    ) -> Any:
        context.found, context.places = found, places
        return values

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        context.found.update(zip(context.places, gradients, strict=True))
        return (None,) * (3 + len(gradients))


class _Last(Function):
    """Hands out the gradients that the end is given."""

    @staticmethod
    def forward(context: Any, given: list[Any], first: Any, *_others: Any) -> Any:
        context.given = given
        return first.new_empty(0)

    @staticmethod
    def backward(context: Any, _nothing: Any) -> Any:
        return (None, *context.given)


class Between:
    """A computation with its own backward.

    saved: what its backward needs, to be kept by somebody else.
    """

    def __init__(self, then: Callable[..., Any], values: Sequence[Any], needed: Sequence[bool]) -> None:
        """Compute.

        Args:
            then: gives a tensor or a tuple of tensors.
            values: what it takes, tensors.
            needed: which of them need a gradient.
        """
        self._count = len(values)
        self._given: list[Any] = []
        self._found: dict[int, Any] = {}
        self.saved: list[Any] = []
        back = self._back = list[Any]()
        with torch.enable_grad(), saved_tensors_hooks(self._keeper(self.saved), back.__getitem__):
            outputs = then(*self._marked(values, needed))
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            self._end = _Last.apply(self._given, *several)  # type: ignore[no-untyped-call]
        self._outputs = tuple(one.detach() for one in several) if outputs is several else outputs.detach()

    def taken(self) -> Any:
        """What it gave, without a graph; once, since it is not held here."""
        outputs, self._outputs = self._outputs, None
        return outputs

    def backward(self, gradients: Sequence[Any], saved: Sequence[Any], *, keep: bool) -> tuple[Any, ...]:
        """The gradients of what it took; weights that it uses get theirs as in any backward.

        Args:
            gradients: of its outputs.
            saved: what was to be kept.
            keep: whether there may be another backward.
        """
        if self._end.requires_grad:
            self._given[:], self._back[:] = gradients, saved
            torch.autograd.backward(self._end, self._end.detach(), retain_graph=keep)
        found = tuple(self._found.get(place) for place in range(self._count))
        for one in (self._given, self._back, self._found):
            one.clear()
        return found

    def _marked(self, values: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
        places = tuple(place for place, one in enumerate(needed) if one)
        marked = [one.detach() for one in values]
        if places:
            anchor = torch.empty(0, device=values[0].device, requires_grad=True)
            new = _First.apply(self._found, places, anchor, *(marked[place] for place in places))  # type: ignore[no-untyped-call]
            for place, one in zip(places, new, strict=True):
                marked[place] = one
        return marked

    @staticmethod
    def _keeper(saved: list[Any]) -> Callable[[Any], int]:
        def keep(tensor: Any) -> int:
            saved.append(tensor)
            return len(saved) - 1

        return keep
