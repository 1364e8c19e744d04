"""Collectives between the GPUs of a stage, as kernels: run to their end, or begun beside something else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, Place
from energyopt.profiler.workloads.job import DTYPE_BYTES


class Work(Protocol):
    """Something that has begun."""

    def wait(self) -> object:
        """Have the current stream wait for its end; on a CPU, wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A collective whose tensors are there. A call runs it, in the order of the current stream.

    start: begins it, after what the current stream holds now and beside what follows there. Every start is waited
        for before the next. NCCL has a stream of its own for that in each process group, gloo a thread.
    """

    run: Callable[[], object]
    start: Callable[[], Work]

    def __call__(self) -> object:
        """Run it."""
        return self.run()


def communication_kernel(name: str, communication: Communication, dtype: str) -> Kernel:
    """A kernel of one collective; its memory traffic is its input read once and its output written once.

    Two of the same arguments are equal, so that partitions that use them can be told to be the same work.
    """
    return Kernel(
        name=name,
        flops=0.0,
        memory_bytes=communication.message_bytes * _passes(communication),
        dtype=dtype,
        communication=communication,
        prepare=_Prepare(communication=communication, dtype=dtype),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepare:
    """Allocates a collective's tensors."""

    communication: Communication
    dtype: str

    def __call__(self, place: Place) -> Exchange:
        elements = int(self.communication.message_bytes) // DTYPE_BYTES[self.dtype]
        return _BUILDERS[self.communication.collective](place, self.communication, elements)


def with_sms(kernel: Kernel, sms: int) -> Kernel:
    """The same communication confined to so many SMs: `NAME@8sms`."""
    if kernel.communication is None:
        raise AssertionError(f"{kernel.name} does not communicate")
    limited = replace(kernel.communication, sms=sms)
    return communication_kernel(f"{kernel.name}@{sms}sms", limited, kernel.dtype)


def _passes(communication: Communication) -> float:
    if communication.collective in {Collective.ALL_REDUCE, Collective.SEND_RECV}:
        return 2.0
    return 1.0 + 1.0 / communication.ranks  # a whole message on one side, a share of it on the other


def _all_reduce(place: Place, communication: Communication, elements: int) -> Exchange:
    distributed, group = place.torch.distributed, place.group(communication)
    tensor = _random(place, elements)
    # a sum would grow without bound from repeat to repeat; NCCL averages at the same cost, Gloo cannot
    nccl = distributed.get_backend(group) == "nccl"
    operation = distributed.ReduceOp.AVG if nccl else distributed.ReduceOp.MAX
    return _exchange(partial(distributed.all_reduce, tensor, op=operation, group=group))


def _all_gather(place: Place, communication: Communication, elements: int) -> Exchange:
    distributed, group = place.torch.distributed, place.group(communication)
    whole, share = _random(place, elements), _random(place, elements // communication.ranks)
    gather = _newest(distributed, "all_gather_single", "all_gather_into_tensor")
    return _exchange(partial(gather, whole, share, group=group))


def _reduce_scatter(place: Place, communication: Communication, elements: int) -> Exchange:
    distributed, group = place.torch.distributed, place.group(communication)
    whole, share = _random(place, elements), _random(place, elements // communication.ranks)
    scatter = _newest(distributed, "reduce_scatter_single", "reduce_scatter_tensor")
    return _exchange(partial(scatter, share, whole, group=group))


def _send_recv(place: Place, communication: Communication, elements: int) -> Exchange:
    distributed, group = place.torch.distributed, place.group(communication)
    sent, received = _random(place, elements), _random(place, elements)
    rank, ranks = distributed.get_rank(group), communication.ranks

    def start() -> Work:
        pair = [
            distributed.P2POp(distributed.isend, sent, group=group, group_peer=(rank + 1) % ranks),
            distributed.P2POp(distributed.irecv, received, group=group, group_peer=(rank - 1) % ranks),
        ]
        return _All(distributed.batch_isend_irecv(pair))

    return Exchange(run=lambda: start().wait(), start=start)


def _exchange(collective: Callable[..., Any]) -> Exchange:
    """From a function of torch.distributed; run without `async_op`, it needs no second stream (torch 2.8 on)."""
    return Exchange(run=collective, start=partial(collective, async_op=True))


class _All:
    """Several works as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def wait(self) -> None:
        """Wait for all of them."""
        for work in self._works:
            work.wait()


def _newest(distributed: Any, name: str, older: str) -> Any:
    """A function under the name that torch 2.13 gave it, or under that of earlier versions."""
    return getattr(distributed, name, None) or getattr(distributed, older)


def _random(place: Place, elements: int) -> Any:
    return place.torch.randn(elements, device=place.device, dtype=place.dtype)


_BUILDERS = {
    Collective.ALL_REDUCE: _all_reduce,
    Collective.ALL_GATHER: _all_gather,
    Collective.REDUCE_SCATTER: _reduce_scatter,
    Collective.SEND_RECV: _send_recv,
}
