"""The way back of a region: its gradient is communicated beside the backward of the region's kernels.

Autograd runs, of the nodes that are ready, the one made last. A region has two: `Entry`, numbered as if made where
it begins, and `Exit`, made where it is joined; its kernels' nodes come in between. So the backward meets `Exit`,
which hands the gradient over to be communicated; then the backward kernels, with hooks that start it before the
planned one; then `Entry`, which waits for it. Were the order another one (because of what else is in the graph,
say), it would start or be waited for at another time, and the gradients would still be right.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from energyopt.applier.overlap.collectives import Collective
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.pending import Pending
from energyopt.applier.overlap.ways import Ways

if TYPE_CHECKING:
    from energyopt.applier.overlap.between import Between


class Gradients:
    """What the two nodes and the hooks of one region share.

    A second backward through a graph that was kept begins anew at `arrived`.

    number: the place in autograd's order of where the region begins.
    between: what was made of the communicated tensor before the region gave it, if anything was.
    """

    def __init__(
        self,
        ways: Ways,
        partition: str,
        collective: Collective | None,
        communicators: Communicators,
        number: int,
    ) -> None:
        self.number = number
        self._ways = ways
        self._partition = partition
        self._collective = collective
        self._communicators = communicators
        self._pending: Pending | None = None
        self._others: tuple[Any, ...] = ()
        self._saved: tuple[Any, ...] = ()
        self.between: Between | None = None

    def to_save(self) -> tuple[Any, ...]:
        """Tensors that are needed on the way back: they are given back to `arrived`, and not held here."""
        if self.between is None:
            return ()
        saved = tuple(self.between.saved)
        self.between.saved.clear()
        return saved

    def weights(self) -> tuple[Any, ...]:
        """Tensors besides those that went in which get a gradient from this region."""
        return () if self.between is None else self.between.weights

    def unordered(self) -> None:
        """This torch lets nobody number a node."""
        self._ways.say(
            "this torch cannot order a region's backward (update it): gradients are communicated one after the "
            "other with it"
        )

    def arrived(self, gradients: Sequence[Any], saved: tuple[Any, ...]) -> None:
        """The gradients of what the region gave: the first is communicated."""
        first, *others = gradients
        self._others, self._saved = tuple(others), saved
        self._pending = Pending(self._ways, self._partition, self._collective, self._communicators, first)

    def reached(self, kernels: tuple[str, ...]) -> None:
        """A backward kernel is about to run."""
        pending = self._pending
        if pending is not None and pending.at in kernels:
            pending.launch()

    def joined(self) -> tuple[Any, ...]:
        """The gradients of what went into the region, and of its weights."""
        pending, self._pending = self._pending, None
        assert pending is not None
        gradients = (pending.result(), *self._others)
        between, saved = self.between, self._saved
        self._others = self._saved = ()
        if between is None:
            return gradients
        keep = _graph_is_kept()
        if not keep:
            self.between = None
        return between.backward(gradients, saved, keep=keep)


def _graph_is_kept() -> bool:
    """Whether the backward that runs now keeps its graph."""
    import torch

    kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return kept is not None and bool(kept())
