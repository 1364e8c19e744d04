"""A stand-in for `torch.cuda`: one stream, in real or in virtual time."""

import time
from types import SimpleNamespace
from typing import Protocol

import pytest

from energyopt.profiler.benches import cuda


class Clock(Protocol):
    def now(self) -> float: ...

    def sleep(self, duration_s: float) -> None: ...


class RealClock:
    now = staticmethod(time.perf_counter)
    sleep = staticmethod(time.sleep)


class VirtualClock:
    """Time passes only where something takes time."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


class Stream:
    """One stream: launched work is done one after the other, each taking its time, while the host goes on.

    dry_s: how long it had nothing to do between two launches.
    launch_s: host time of a launch, in virtual time.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.free_s = 0.0
        self.launches = 0
        self.dry_s = 0.0
        self.most_queued_s = 0.0
        self.launch_s = 0.0
        self.hangs = False
        self.emptied = 0

    def begin(self) -> None:
        """Count anew; the stream is idle."""
        self.launches, self.dry_s, self.most_queued_s = 0, 0.0, 0.0

    def launch(self, duration_s: float) -> None:
        if self.launch_s:
            self.clock.sleep(self.launch_s)
        now_s = self.clock.now()
        if self.launches:
            self.dry_s += max(0.0, now_s - self.free_s)
        self.free_s = max(self.free_s, now_s) + duration_s
        self.most_queued_s = max(self.most_queued_s, self.free_s - now_s)
        self.launches += 1

    def synchronize(self, _: object) -> None:
        assert not self.hangs, "would block for ever"
        self.clock.sleep(max(0.0, self.free_s - self.clock.now()))

    def empty_cache(self) -> None:
        self.emptied += 1

    def _sleep(self, cycles: int) -> None:
        self.launch(cycles / 1.5e9)

    def Event(self, *, enable_timing: bool) -> "Mark":  # noqa: N802 - torch's name
        assert enable_timing
        return Mark(self)


class Mark:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.passes_s = 0.0

    def record(self) -> None:
        self.passes_s = max(self.stream.free_s, self.stream.clock.now())

    def query(self) -> bool:
        return not self.stream.hangs and self.stream.clock.now() >= self.passes_s

    def elapsed_time(self, later: "Mark") -> float:
        assert self.query()
        assert later.query()
        return 1e3 * (later.passes_s - self.passes_s)


@pytest.fixture
def stream() -> Stream:
    return Stream(RealClock())


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream in virtual time, in which the launching loop then lives too; without polls: they need a thread."""
    clock = VirtualClock()
    monkeypatch.setattr(cuda, "now", clock.now)
    monkeypatch.setattr(cuda, "time", SimpleNamespace(sleep=clock.sleep))
    return Stream(clock)
