"""What is communicated beside a partition, forward and backward."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Collective(StrEnum):
    """What is done with one tensor. Gathering and scattering are along its first dimension."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What is done with a tensor on its way forward and with its gradient on its way back; None for nothing."""

    forward: Collective | None
    backward: Collective | None


REDUCE = Exchange(forward=Collective.ALL_REDUCE, backward=None)
"""After a linear layer that is cut along its inputs: partial sums are added up."""

COPY = Exchange(forward=None, backward=Collective.ALL_REDUCE)
"""Before a linear layer that is cut along its outputs: each rank has a part of the gradient."""

REDUCE_COPY = Exchange(forward=Collective.ALL_REDUCE, backward=Collective.ALL_REDUCE)
"""The one and then the other, with what stands between the two given as `then`."""

GATHER = Exchange(forward=Collective.ALL_GATHER, backward=Collective.REDUCE_SCATTER)
"""Before a linear layer with sequence parallelism; the keys and values of context parallelism; sharded weights."""

SCATTER = Exchange(forward=Collective.REDUCE_SCATTER, backward=Collective.ALL_GATHER)
"""After a linear layer with sequence parallelism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A collective on its way.

    result: where its outcome will stand.
    source: what it reads, which must live until it has.
    """

    work: Any
    result: Any
    source: Any

    def wait(self) -> Any:
        """The outcome: on a GPU the current stream waits for it, on a CPU the caller."""
        self.work.wait()
        return self.result


def start(collective: Collective, tensor: Any, group: Any, size: int) -> Started:
    """Start a collective; the tensor itself is left as it is.

    On GPUs it waits for what the current stream holds now, and runs on a stream of the process group's own:
    torch's rules for `async_op=True`. What it reads and writes was allocated on the current stream, is referred to
    until the work is joined, and torch itself keeps it alive until then as well, so that no memory is used again
    too early.

    Args:
        collective: which.
        tensor: what goes in.
        group: the process group.
        size: its ranks.

    Raises:
        ValueError: a tensor without dimensions, or one that cannot be scattered evenly.
    """
    import torch.distributed as dist

    source = tensor.detach().contiguous()
    if collective is Collective.ALL_REDUCE:
        result = source.clone()
        return Started(work=dist.all_reduce(result, group=group, async_op=True), result=result, source=None)
    if source.dim() == 0:
        raise ValueError(f"{collective} goes along the first dimension, and a tensor of shape () has none")
    rows, *others = source.shape
    if collective is Collective.ALL_GATHER:
        result = source.new_empty((rows * size, *others))
        run = _newest(dist, "all_gather_single", "all_gather_into_tensor")
    else:
        if rows % size:
            raise ValueError(f"{rows} rows cannot be scattered over {size} ranks")
        result = source.new_empty((rows // size, *others))
        run = _newest(dist, "reduce_scatter_single", "reduce_scatter_tensor")
    return Started(work=run(result, source, group=group, async_op=True), result=result, source=source)


def _newest(distributed: Any, name: str, older: str) -> Any:
    """A function under the name that torch 2.13 gave it, or under that of earlier versions."""
    return getattr(distributed, name, None) or getattr(distributed, older)
