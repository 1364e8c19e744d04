"""When operations began on the GPU, by the training thread's clock: bounds that always hold, in virtual time."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.applier.runtime.gpu_times import GpuTimes, Timed

MS = 1_000_000


@dataclass
class Stream:
    """A GPU that works off what is launched, in order; `now_ms` is the training thread's time."""

    now_ms: float = 1000.0
    free_ms: float = 0.0
    asked: int = 0
    capturing: bool = False
    events: list["Event"] = field(default_factory=list)

    def event(self, *, enable_timing: bool) -> "Event":
        assert enable_timing
        return Event(self)

    def launch(self, work_ms: float) -> None:
        self.free_ms = max(self.free_ms, self.now_ms) + work_ms

    def times(self) -> GpuTimes:
        return GpuTimes(self.event, lambda: self.capturing, lambda: round(self.now_ms * MS))


class Event:
    """As torch.cuda.Event: it happens when all that was launched before it is done."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = max(self.stream.free_ms, self.stream.now_ms)

    def query(self) -> bool:
        self.stream.asked += 1
        assert not self.stream.capturing, "an error while a graph is captured"
        return self.at_ms <= self.stream.now_ms

    def elapsed_time(self, end: "Event") -> float:
        return end.at_ms - self.at_ms


def train(
    stream: Stream, ops: list[tuple[float, float, float, bool]], end_ms: float = 0.0
) -> tuple[Timed, float]:
    """One iteration, and when its first operation really began, ms.

    ops: what launching takes, the work, a pause after it, and whether the thread waits for the GPU before that.
    """
    times, began_ms = stream.times(), None
    times.start()
    for position, (launch_ms, work_ms, pause_ms, waits) in enumerate(ops):
        times.begin(position)
        began_ms = max(stream.free_ms, stream.now_ms) if began_ms is None else began_ms
        stream.launch(work_ms)
        stream.now_ms += launch_ms
        if waits:
            stream.now_ms = max(stream.now_ms, stream.free_ms)
        times.end()
        stream.now_ms += pause_ms
    times.finish(0, 0)
    stream.now_ms = max(stream.now_ms, stream.free_ms) + end_ms
    (one,) = times.ready()
    assert began_ms is not None
    return one, began_ms


def test_a_thread_that_waits_for_the_gpu_tells_closely() -> None:
    """1 ms between operations: one of their events is seen within that."""
    one, began_ms = train(Stream(), [(1.0, 40.0, 1.0, True)] * 6, end_ms=100.0)
    assert one.anchor is not None
    earliest_ns, later_ns = one.anchor
    assert earliest_ns <= began_ms * MS <= earliest_ns + later_ns
    assert later_ns <= 1.1 * MS


def test_the_launch_of_the_first_operation_is_not_its_start() -> None:
    """The GPU has 700 ms of other work to do. Launches go on meanwhile, every 3 ms, and see when that is over."""
    stream = Stream(free_ms=1700.0)
    one, began_ms = train(stream, [(2.0, 2.0, 1.0, False)] * 400)
    assert began_ms == 1700.0
    assert one.anchor is not None
    earliest_ns, later_ns = one.anchor
    assert earliest_ns <= 1700 * MS <= earliest_ns + later_ns
    assert later_ns <= 4 * MS


def test_who_never_looks_does_not_know() -> None:
    """All is launched in 5 ms, and then nobody looks for seconds: it may have begun at any time in them."""
    one, began_ms = train(Stream(free_ms=1700.0), [(1.0, 40.0, 0.0, False)] * 5, end_ms=3000.0)
    assert one.anchor is not None
    earliest_ns, later_ns = one.anchor
    assert earliest_ns <= began_ms * MS <= earliest_ns + later_ns
    assert later_ns > 1000 * MS


def test_what_asking_costs() -> None:
    """Two events each operation and two calls; at most one call in each finds that nothing has happened."""
    stream = Stream()
    train(stream, [(1.0, 40.0, 1.0, True)] * 100)
    assert stream.asked <= 4 * 100 + 1


def test_nothing_is_asked_while_a_graph_is_captured() -> None:
    stream = Stream()
    times = stream.times()
    times.start()
    times.begin(0)
    stream.now_ms += 1
    times.end()
    stream.capturing = True
    times.begin(1)
    times.end()
    stream.capturing = False
    times.finish(0, 0)
    assert [(one.ops, one.anchor) for one in times.ready()] == [([], None)]


def test_bounds_that_contradict_each_other_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's clock that runs at half the speed of ours."""
    monkeypatch.setattr(Event, "elapsed_time", lambda self, end: (end.at_ms - self.at_ms) / 2)
    one, _ = train(Stream(), [(1.0, 40.0, 1.0, True)] * 6)
    assert one.anchor is None


PAUSES = st.floats(0.0, 50.0)


@given(
    ops=st.lists(st.tuples(PAUSES, PAUSES, PAUSES, st.booleans()), min_size=1, max_size=12),
    busy_ms=st.floats(0.0, 2000.0),
    end_ms=st.floats(0.0, 500.0),
)
def test_the_truth_lies_within(ops: list[Any], busy_ms: float, end_ms: float) -> None:
    one, began_ms = train(Stream(free_ms=busy_ms), ops, end_ms)
    assert one.anchor is not None
    earliest_ns, later_ns = one.anchor
    assert earliest_ns - 10 <= began_ms * MS <= earliest_ns + later_ns + 100_010
