import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.profiler.benches.torch_bench import TorchBench, open_torch_bench
from energyopt.profiler.workloads.composites import composite
from energyopt.profiler.workloads.interface import Collective, Communication, Kernel, KernelUse, Partition
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.profiler.workloads.simple import callable_kernel
from energyopt.schemas.errors import DeviceError, MeasurementError, RequestError, WorkloadError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN

torch = pytest.importorskip("torch")

Open = Callable[..., TorchBench]


class Board:
    """A board of which nothing is read here."""

    def __init__(self) -> None:
        self.identity = SimpleNamespace(kind="nvml", uuid="GPU-aaaa", name="fake", mig=False)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def open_bench() -> Iterator[Open]:
    opened: list[TorchBench] = []

    def open_one(**settings: Any) -> TorchBench:
        device: Any = Board()
        opened.append(open_torch_bench(device, torch_device="cpu", dtype="float32", **settings))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.close()


def test_a_kernel_runs_once_to_prepare_and_then_as_often_as_asked(open_bench: Open) -> None:
    bench, runs = open_bench(), []
    kernel = callable_kernel("count", lambda: runs.append(threading.get_ident()))
    bench.prepare(kernel)
    assert len(runs) == 1
    assert bench.run(kernel, 5) >= 0.0
    assert len(runs) == 6


def test_the_time_covers_all_repeats(open_bench: Open) -> None:
    bench = open_bench()
    kernel = callable_kernel("nap", lambda: time.sleep(0.01))
    bench.prepare(kernel)
    before_s = bench.now_s()
    took_s = bench.run(kernel, 5)
    assert 0.05 <= took_s <= bench.now_s() - before_s
    assert bench.last_idle_share == 0.0


def _every(interval_s: float, seen: list[float]) -> Callable[[float], float]:
    def poll(now_s: float) -> float:
        seen.append(now_s)
        return now_s + interval_s

    return poll


def test_polls_come_while_one_long_kernel_runs_and_never_before_they_are_due(open_bench: Open) -> None:
    bench, seen = open_bench(), list[float]()
    kernel = callable_kernel("nap", lambda: time.sleep(0.25))
    bench.prepare(kernel)
    bench.run(kernel, 1, _every(0.02, seen))
    assert len(seen) >= 3
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(seen))


@pytest.mark.parametrize("what", ["sleep", "wait"])
def test_sleeping_and_waiting_take_their_time_and_poll(open_bench: Open, what: str) -> None:
    bench, seen = open_bench(), list[float]()
    start_s = bench.now_s()
    getattr(bench, what)(0.1, _every(0.02, seen))
    assert bench.now_s() - start_s >= 0.1
    assert len(seen) >= 2


def test_waiting_keeps_a_processor_busy_and_sleeping_does_not(open_bench: Open) -> None:
    bench, used_s = open_bench(), dict[str, float]()
    for what in ("sleep", "wait"):
        start_s = time.process_time()
        getattr(bench, what)(0.1)
        used_s[what] = time.process_time() - start_s
    assert used_s["wait"] > 4 * used_s["sleep"]


class Partner:
    """Notes who does what, and in which thread."""

    def __init__(self, waits_first: bool) -> None:
        self.waits_first = waits_first
        self.calls: list[tuple[str, float, bool]] = []

    def receive(self, duration_s: float) -> None:
        self.calls.append(("receive", duration_s, threading.current_thread() is threading.main_thread()))
        time.sleep(duration_s)

    def serve(self) -> None:
        self.calls.append(("serve", 0.0, threading.current_thread() is threading.main_thread()))


@pytest.mark.parametrize("waits_first", [True, False])
def test_a_peer_is_waited_for_in_a_thread_while_this_one_polls(open_bench: Open, waits_first: bool) -> None:
    peer, seen = Partner(waits_first), list[float]()
    open_bench(peer=peer).wait(0.1, _every(0.02, seen))
    turns = [("receive", 0.1, False), ("serve", 0.0, True)]
    assert peer.calls == (turns if waits_first else turns[::-1])
    assert len(seen) >= 2


def test_what_a_poll_raises_stops_the_kernels_and_comes_through(open_bench: Open) -> None:
    bench, runs = open_bench(), []

    def step() -> None:
        runs.append(1)
        time.sleep(0.005)

    def poll(_: float) -> float:
        raise MeasurementError("throttled")

    kernel = callable_kernel("steps", step)
    bench.prepare(kernel)
    with pytest.raises(MeasurementError, match="throttled"):
        bench.run(kernel, 100_000, poll)
    ended = len(runs)
    time.sleep(0.02)
    assert len(runs) == ended


def _broken(fails_at: int, error: Exception) -> Kernel:
    runs = iter(range(1, 100))

    def step() -> None:
        if next(runs) == fails_at:
            raise error

    return callable_kernel("broken", step)


def test_a_kernel_that_fails_is_named(open_bench: Open) -> None:
    bench = open_bench()
    with pytest.raises(WorkloadError, match=r"^kernel broken fails: ValueError: bad shape$"):
        bench.prepare(_broken(1, ValueError("bad shape\nand a long trace")))
    later = _broken(3, ValueError("bad shape"))
    bench.prepare(later)
    with pytest.raises(WorkloadError, match=r"^kernel broken fails: ValueError: bad shape$"):
        bench.run(later, 5)


def test_a_partition_that_fails_is_named(open_bench: Open) -> None:
    def whole(kernel: Kernel) -> Kernel:
        partition = Partition(name="mlp", kernels=(KernelUse(kernel=kernel),))
        return composite(OpKind.FORWARD, partition, 2, PLAIN).kernel

    bench, title = open_bench(), "^partition forward mlp/2 sequential "
    with pytest.raises(WorkloadError, match=title + "fails: ValueError: bad shape$"):
        bench.prepare(whole(_broken(1, ValueError("bad shape"))))
    with pytest.raises(WorkloadError, match=title + "does not fit"):
        bench.prepare(whole(_broken(1, torch.OutOfMemoryError("CUDA out of memory"))))
    with pytest.raises(WorkloadError, match=title + "has no code to run: it can only be simulated"):
        bench.prepare(whole(Kernel(name="model", flops=1.0, memory_bytes=1.0)))


def test_memory_that_runs_out_says_what_to_do(open_bench: Open) -> None:
    with pytest.raises(WorkloadError, match=r"does not fit.* 0.00 GiB; lower the microbatch size"):
        open_bench().prepare(_broken(1, torch.OutOfMemoryError("CUDA out of memory")))


def test_a_kernel_without_code_or_peers_is_refused(open_bench: Open) -> None:
    with pytest.raises(WorkloadError, match="kernel model has no code to run: it can only be simulated"):
        open_bench().prepare(Kernel(name="model", flops=1.0, memory_bytes=1.0))
    talk = Communication(collective=Collective.ALL_REDUCE, message_bytes=64.0, group="tensor", ranks=2)
    with pytest.raises(
        WorkloadError, match=r"^all_reduce of 2 ranks \(tensor group\) needs a process for each"
    ):
        open_bench().prepare(communication_kernel("tensor_all_reduce", talk, "float32"))


def test_closing_twice_is_fine_and_lets_go_of_the_board() -> None:
    device: Any = Board()
    bench = open_torch_bench(device, torch_device="cpu", dtype="float32")
    bench.close()
    bench.close()
    assert device.closed == 2


@pytest.mark.parametrize(
    ("torch_device", "dtype", "error", "problem"),
    [
        ("cuda:99", "float32", DeviceError, "torch sees [0-9]+ CUDA devices, so there is no cuda:99"),
        ("gpu", "float32", DeviceError, "'gpu' is no torch device: give cuda:0 or cpu"),
        ("meta", "float32", DeviceError, "'meta' is not supported"),
        ("cpu", "int8", WorkloadError, "dtype 'int8' is none of bfloat16"),
    ],
)
def test_devices_and_types_that_are_not_there_are_refused(
    torch_device: str, dtype: str, error: type[Exception], problem: str
) -> None:
    device: Any = Board()
    with pytest.raises(error, match=problem):
        open_torch_bench(device, torch_device=torch_device, dtype=dtype)


def test_where_torch_is_missing_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    device: Any = Board()
    with pytest.raises(RequestError, match=r"pip install 'energyopt\[torch\]'.* --device sim:"):
        open_torch_bench(device, torch_device="cpu", dtype="float32")


def test_another_board_than_the_one_that_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's order is fastest first and NVML's is by bus: equal numbers may mean different boards."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    properties = SimpleNamespace(uuid="bbbb")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    device: Any = Board()
    with pytest.raises(DeviceError, match="cuda:0 is board GPU-bbbb and fake is GPU-aaaa"):
        open_torch_bench(device, torch_device="cuda:0", dtype="float32")
    properties.uuid = "AAAA"
    assert open_torch_bench(device, torch_device="cuda", dtype="float32").device is device


def test_a_peer_that_is_gone_is_said_in_one_line(open_bench: Open) -> None:
    """As gloo tells it when a process has died: no defect of ours."""

    class Gone(Partner):
        def receive(self, duration_s: float) -> None:
            raise RuntimeError(f"[gloo/pair.cc:555] Connection closed by peer after {duration_s} s")

    with pytest.raises(
        WorkloadError, match=r"the rank to wait for is gone: RuntimeError: .*Connection closed by peer"
    ):
        open_bench(peer=Gone(True)).wait(0.1)
