"""Times from CUDA events, with a stand-in for them: a GPU that works off what is recorded when it is told to."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.runtime.channel import ANCHOR, BEGIN, OP_TIME, STEP, UNKNOWN
from energyopt.applier.runtime.gpu_times import GpuTimes, is_timed

Make = Callable[..., Any]


class Gpu:
    """Runs 10 ms behind whatever is recorded; `done_ms` says how far it has come."""

    def __init__(self) -> None:
        self.made = 0
        self.recorded_ms = 0.0
        self.done_ms = 1e9
        self.capturing = False
        self.synchronised = 0

    def event(self, *, enable_timing: bool) -> "Event":
        assert enable_timing
        self.made += 1
        return Event(self)


class Event:
    """As torch.cuda.Event."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at_ms: float | None = None

    def record(self) -> None:
        self.gpu.recorded_ms += 10
        self.at_ms = self.gpu.recorded_ms

    def query(self) -> bool:
        assert self.at_ms is not None
        return self.at_ms <= self.gpu.done_ms

    def elapsed_time(self, end: "Event") -> float:
        if self.gpu.done_ms < (end.at_ms or 0):
            raise RuntimeError("device not ready")
        assert self.at_ms is not None and end.at_ms is not None
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        raise AssertionError("training must not wait")


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def times(gpu: Gpu) -> GpuTimes:
    return GpuTimes(gpu.event, lambda: gpu.capturing)


def run(times: GpuTimes, number: int, positions: tuple[int, ...] = (0, 1)) -> None:
    times.start()
    for position in positions:
        times.begin(position)
        times.end()
    times.finish(number, 1000 + number)


def test_start_and_duration_of_each_operation(times: GpuTimes) -> None:
    run(times, 7)
    ((number, ops, overhead_ns, _),) = times.ready()
    assert (number, ops, overhead_ns) == (7, [(0, 0, 10_000_000), (1, 20_000_000, 10_000_000)], 1007)
    assert list(times.ready()) == []


def test_nothing_is_read_before_it_has_happened(times: GpuTimes, gpu: Gpu) -> None:
    gpu.done_ms = 35.0  # of 40
    run(times, 0)
    assert list(times.ready()) == []
    gpu.done_ms = 40.0
    assert [one.number for one in times.ready()] == [0]


def test_iterations_come_out_in_order(times: GpuTimes, gpu: Gpu) -> None:
    gpu.done_ms = 0.0
    for number in range(3):
        run(times, number)
    gpu.done_ms = 85.0
    assert [one.number for one in times.ready()] == [0, 1]
    gpu.done_ms = 1e9
    assert [one.number for one in times.ready()] == [2]


def test_a_gpu_that_is_far_behind_is_not_piled_upon(times: GpuTimes, gpu: Gpu) -> None:
    gpu.done_ms = 0.0
    for number in range(10):
        run(times, number)
    assert gpu.made == 3 * 4, "three iterations of two operations with two events"
    gpu.done_ms = 1e9
    found = list(times.ready())
    assert [one.number for one in found] == list(range(10))
    assert [len(one.ops) for one in found] == [2, 2, 2, *[0] * 7]


def test_events_are_used_again(times: GpuTimes, gpu: Gpu) -> None:
    for number in range(10_000):
        run(times, number)
        list(times.ready())
    assert gpu.made == 4


def test_what_the_plan_does_not_know_is_not_timed(times: GpuTimes) -> None:
    """Its place would be taken for the end of the list."""
    run(times, 0, (0, UNKNOWN, 1))
    (one,) = times.ready()
    assert [op[0] for op in one.ops] == [0, 1]


def test_an_end_belongs_to_the_operation_before_it(times: GpuTimes) -> None:
    times.start()
    times.end()
    times.begin(0)
    times.begin(UNKNOWN)
    times.end()
    times.begin(1)
    times.end()
    times.end()
    times.finish(0, 0)
    (one,) = times.ready()
    assert [op[0] for op in one.ops] == [1], "nobody knows when 0 ended"


def test_work_that_goes_into_a_graph_is_not_timed(times: GpuTimes, gpu: Gpu) -> None:
    """Events in there never happen, and asking for them is an error."""
    gpu.capturing = True
    run(times, 0)
    assert gpu.made == 0
    gpu.capturing = False
    run(times, 1)
    assert [len(one.ops) for one in times.ready()] == [0, 2]


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_session_writes_them_after_the_iteration_they_are_of(
    make_rig: Make, times: GpuTimes, gpu: Gpu, every: int
) -> None:
    """The training thread reads the loss at each iteration's end, so that all has happened when the next begins."""
    rig = make_rig(times=times, every=every)
    for _ in range(11):
        rig.session.step()
        for microbatch in range(3):
            rig.session.begin("backward", microbatch)  # and nobody says when it ends
            with rig.session.op("forward", microbatch):
                pass
        rig.session.begin("optimizer", 0)
        rig.session.end()
    rig.session.step()
    ended = None
    lists: list[tuple[int, list[int]]] = []
    positions: list[int] = []
    for one in rig.records():
        if one.kind == STEP:
            ended = (one.value >> 1) - 1
        elif one.kind == OP_TIME and one.value == ANCHOR:
            assert positions == []
        elif one.kind == OP_TIME and one.value != UNKNOWN:
            positions.append(one.value)
        elif one.kind == OP_TIME:
            assert one.first == ended
            assert one.second > 0
            lists.append((one.first, positions))
            positions = []
        else:
            assert one.kind != BEGIN or not positions
    timed = sorted({1, 2, 3, *range(0, 11, every)})  # of these the first three in any case
    assert lists == [(number, [0, 2, 4]) for number in timed]
    assert gpu.made == 6, "two for each of the three that were timed"


@pytest.mark.parametrize("broken", [lambda: 1 / 0, lambda: float("nan"), lambda: -3.0])
def test_a_gpu_that_answers_with_nonsense(
    make_rig: Make, times: GpuTimes, monkeypatch: pytest.MonkeyPatch, broken: Callable[[], float]
) -> None:
    monkeypatch.setattr(Event, "elapsed_time", lambda *_: broken())
    rig = make_rig(times=times)
    for _ in range(3):
        rig.session.step()
        with rig.session.op("forward", 0):
            pass
    rig.session.close()
    assert all(one.first >= 0 for one in rig.records())


def test_the_first_iterations_are_timed_without_telemetry(make_rig: Make, times: GpuTimes) -> None:
    """Whether launches run ahead of the GPU is to be known soon, and again now and then; nothing is recorded."""
    rig = make_rig(times=times, every=0)
    for _ in range(203):
        rig.session.step()
        with rig.session.op("forward", 0):
            pass
    records = rig.records()
    timed = [one.first for one in records if one.kind == OP_TIME and one.value == UNKNOWN]
    assert timed == [1, 2, 3, 100, 200]
    assert [number for number in range(203) if is_timed(number)] == timed
    assert not any(one.value & 1 for one in records if one.kind == STEP)
