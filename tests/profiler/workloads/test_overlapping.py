"""In which order a partition's torch code is called; two real ranks run it in tests/profiler/benches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Overlap,
)
from energyopt.profiler.workloads.layers.communication import communication_kernel, with_sms
from energyopt.profiler.workloads.overlapping import prepare_overlap

TALK = Communication(collective=Collective.ALL_REDUCE, message_bytes=64.0, group="tensor", ranks=2)


class Machine:
    """Stands for torch and its CUDA streams; notes what is called."""

    def __init__(self, kind: str) -> None:
        self.events: list[str] = []
        self.prepared: list[str] = []
        self.now = "main"
        cuda = SimpleNamespace(Stream=self._stream, stream=self._on, current_stream=self._current)
        self.place: Any = SimpleNamespace(device=SimpleNamespace(type=kind), torch=SimpleNamespace(cuda=cuda))

    def kernel(self, name: str, *, talks: bool = False) -> Kernel:
        """A kernel that notes on which stream it runs; a communication of a user's own if it talks."""

        def prepare(_: object) -> Callable[[], object]:
            self.prepared.append(name)
            return lambda: self.events.append(f"{name} on {self.now}")

        return Kernel(
            name=name,
            flops=0.0,
            memory_bytes=0.0,
            communication=TALK if talks else None,
            prepare=prepare,
        )

    def run(self, launch: int | None, *, talks: bool = True) -> list[str]:
        """What one run of a partition of a, b twice and a again does."""
        a, b = self.kernel("a"), self.kernel("b")
        uses = (KernelUse(kernel=a), KernelUse(kernel=b, count=2), KernelUse(kernel=a))
        talk = self.kernel("talk", talks=True) if talks else None
        prepare = prepare_overlap(Overlap(compute=uses, communication=talk, launch=launch))
        assert prepare is not None
        step = prepare(self.place)
        assert self.events == []
        step()
        return self.events

    def _stream(self, device: object) -> Any:
        assert device is self.place.device
        return self._named("side")

    def _current(self, device: object) -> Any:
        assert device is self.place.device
        return self._named(self.now)

    def _named(self, name: str) -> Any:
        def wait_stream(other: Any) -> None:
            self.events.append(f"{name} waits for {other.name}")

        return SimpleNamespace(name=name, device=self.place.device, wait_stream=wait_stream)

    @contextmanager
    def _on(self, stream: Any) -> Iterator[None]:
        self.now = stream.name
        yield
        self.now = "main"


COMPUTE = ["a on main", "b on main", "b on main", "a on main"]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_without_a_launch_the_communication_runs_first_in_the_same_stream(kind: str) -> None:
    assert Machine(kind).run(None) == ["talk on main", *COMPUTE]
    assert Machine(kind).run(None, talks=False) == COMPUTE


@pytest.mark.parametrize(("launch", "place"), [(0, 0), (1, 1), (2, 3)])
def test_a_communication_of_ones_own_has_a_stream_that_is_joined_at_the_end(launch: int, place: int) -> None:
    begun = ["side waits for main", "talk on side"]
    expected = [*COMPUTE[:place], *begun, *COMPUTE[place:], "main waits for side"]
    assert Machine("cuda").run(launch) == expected


def test_on_a_cpu_it_runs_where_it_is_launched() -> None:
    assert Machine("cpu").run(1) == [COMPUTE[0], "talk on main", *COMPUTE[1:]]


def test_what_stands_twice_is_prepared_once() -> None:
    machine = Machine("cpu")
    machine.run(1)
    assert machine.prepared == ["a", "b", "talk"]


def test_a_partition_with_a_kernel_without_code_has_none() -> None:
    machine = Machine("cpu")
    code, talk = machine.kernel("a"), machine.kernel("talk", talks=True)
    for kernel, other in ((replace(code, prepare=None), talk), (code, replace(talk, prepare=None))):
        use = KernelUse(kernel=kernel)
        assert prepare_overlap(Overlap(compute=(use,), communication=other, launch=0)) is None


class Group:
    """Stands for torch.distributed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.waited = 0
        self.ReduceOp = SimpleNamespace(AVG="avg", MAX="max")

    def get_backend(self, _: object) -> str:
        return "nccl"

    def get_rank(self, _: object) -> int:
        return 0

    def all_reduce(self, *_: object, async_op: bool = False, **__: object) -> Any:
        return self._begun("all_reduce", async_op)

    def all_gather_single(self, *_: object, async_op: bool = False, **__: object) -> Any:
        return self._begun("all_gather", async_op)

    def reduce_scatter_single(self, *_: object, async_op: bool = False, **__: object) -> Any:
        return self._begun("reduce_scatter", async_op)

    def _begun(self, name: str, apart: bool) -> Any:
        self.calls.append((name, apart))
        return self if apart else None

    def P2POp(self, operation: str, *_: object, **__: object) -> str:  # noqa: N802 - torch's name
        return operation

    isend, irecv = "isend", "irecv"

    def batch_isend_irecv(self, pair: list[str]) -> list[Any]:
        self.calls += [(name, True) for name in pair]
        return [self, self]

    def wait(self) -> None:
        self.waited += 1


@pytest.mark.parametrize("collective", Collective)
def test_collectives_stay_in_their_stream_unless_they_are_begun(collective: Collective) -> None:
    """torch runs a collective in the current stream, or with `async_op` in one of the process group's."""
    group = Group()
    torch = SimpleNamespace(distributed=group, randn=lambda *_, **__: None)
    place: Any = SimpleNamespace(torch=torch, device=None, dtype=None, group=lambda _: group)
    kernel = communication_kernel("talk", replace(TALK, collective=collective), "float32")
    assert kernel.prepare is not None
    exchange: Any = kernel.prepare(place)
    peers = collective is Collective.SEND_RECV
    exchange()
    names = ["isend", "irecv"] if peers else [str(collective)]
    assert group.calls == [(name, peers) for name in names]
    assert group.waited == (2 if peers else 0)
    group.calls.clear()
    work = exchange.start()
    assert group.calls == [(name, True) for name in names]
    assert group.waited == (2 if peers else 0)
    work.wait()
    assert group.waited == (4 if peers else 1)


def test_the_same_communication_twice_is_the_same_work() -> None:
    one, other, wider = (with_sms(communication_kernel("talk", TALK, "float32"), sms) for sms in (8, 8, 16))
    assert one == other
    assert one != wider
