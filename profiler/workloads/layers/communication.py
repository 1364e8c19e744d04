"""Collectives between the GPUs of a stage, as kernels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, Place
from energyopt.profiler.workloads.job import DTYPE_BYTES


def communication_kernel(name: str, communication: Communication, dtype: str) -> Kernel:
    """A kernel of one collective; its memory traffic is its input read once and its output written once."""

    def prepare(place: Place) -> Callable[[], object]:
        elements = int(communication.message_bytes) // DTYPE_BYTES[dtype]
        return _BUILDERS[communication.collective](place, communication, elements)

    return Kernel(
        name=name,
        flops=0.0,
        memory_bytes=communication.message_bytes * _passes(communication),
        dtype=dtype,
        communication=communication,
        prepare=prepare,
    )


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


def _all_reduce(place: Place, communication: Communication, elements: int) -> Callable[[], object]:
    distributed, group = place.torch.distributed, place.group(communication)
    tensor = _random(place, elements)
    # a sum would grow without bound from repeat to repeat; NCCL averages at the same cost, Gloo cannot
    nccl = distributed.get_backend(group) == "nccl"
    operation = distributed.ReduceOp.AVG if nccl else distributed.ReduceOp.MAX
    return lambda: distributed.all_reduce(tensor, op=operation, group=group)


def _all_gather(place: Place, communication: Communication, elements: int) -> Callable[[], object]:
    distributed, group = place.torch.distributed, place.group(communication)
    whole, share = _random(place, elements), _random(place, elements // communication.ranks)
    gather = _newest(distributed, "all_gather_single", "all_gather_into_tensor")
    return lambda: gather(whole, share, group=group)


def _reduce_scatter(place: Place, communication: Communication, elements: int) -> Callable[[], object]:
    distributed, group = place.torch.distributed, place.group(communication)
    whole, share = _random(place, elements), _random(place, elements // communication.ranks)
    scatter = _newest(distributed, "reduce_scatter_single", "reduce_scatter_tensor")
    return lambda: scatter(share, whole, group=group)


def _send_recv(place: Place, communication: Communication, elements: int) -> Callable[[], object]:
    distributed, group = place.torch.distributed, place.group(communication)
    sent, received = _random(place, elements), _random(place, elements)
    rank, ranks = distributed.get_rank(group), communication.ranks

    def run() -> None:
        pair = [
            distributed.P2POp(distributed.isend, sent, group=group, group_peer=(rank + 1) % ranks),
            distributed.P2POp(distributed.irecv, received, group=group, group_peer=(rank - 1) % ranks),
        ]
        for work in distributed.batch_isend_irecv(pair):
            work.wait()  # on a GPU this orders streams and does not block

    return run


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
