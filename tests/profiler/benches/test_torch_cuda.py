"""The launching loop for CUDA, against a stand-in for `torch.cuda` whose stream takes real time."""

import time
from functools import partial
from itertools import pairwise

import pytest

from energyopt.profiler.benches.cuda import CudaRunner
from energyopt.profiler.benches.runners import wait_for


class Stream:
    """One stream: launched work is done one after the other, each taking its time, while the host goes on."""

    def __init__(self) -> None:
        self.free_s = 0.0
        self.launches = 0
        self.most_queued_s = 0.0

    def launch(self, duration_s: float) -> None:
        self.free_s = max(self.free_s, time.perf_counter()) + duration_s
        self.most_queued_s = max(self.most_queued_s, self.free_s - time.perf_counter())
        self.launches += 1

    def synchronize(self, _: object) -> None:
        time.sleep(max(0.0, self.free_s - time.perf_counter()))

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
        self.passes_s = max(self.stream.free_s, time.perf_counter())

    def query(self) -> bool:
        return time.perf_counter() >= self.passes_s

    def elapsed_time(self, later: "Mark") -> float:
        assert self.query()
        assert later.query()
        return 1e3 * (later.passes_s - self.passes_s)


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def runner(stream: Stream) -> CudaRunner:
    return CudaRunner(stream, "cuda:0")


@pytest.mark.parametrize(("step_s", "repeats"), [(2e-5, 3000), (1e-3, 60), (0.03, 3)])
def test_all_repeats_run_and_the_time_is_theirs(
    stream: Stream, runner: CudaRunner, step_s: float, repeats: int
) -> None:
    took_s = runner.run(partial(stream.launch, step_s), repeats, None)
    assert stream.launches == repeats
    assert took_s >= step_s * repeats
    assert stream.free_s <= time.perf_counter()


def test_a_few_milliseconds_at_most_are_queued(stream: Stream, runner: CudaRunner) -> None:
    """Two chunks of 3 ms, each of which may be one step longer; 60 ms are launched in all."""
    runner.run(partial(stream.launch, 1e-3), 60, None)
    assert stream.most_queued_s <= 2 * 4e-3 + 1e-4


@pytest.mark.parametrize("step_s", [1e-3, 0.1])
def test_polls_come_on_time_while_kernels_run(stream: Stream, runner: CudaRunner, step_s: float) -> None:
    seen: list[float] = []

    def poll(now_s: float) -> float:
        seen.append(now_s)
        return now_s + 0.02

    runner.run(partial(stream.launch, step_s), round(0.2 / step_s), poll)
    assert len(seen) >= 3
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(seen))


def test_what_a_poll_raises_comes_through_with_nothing_left_running(
    stream: Stream, runner: CudaRunner
) -> None:
    def poll(_: float) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(partial(stream.launch, 1e-3), 10_000, poll)
    assert stream.launches < 100
    assert stream.free_s <= time.perf_counter()


def test_waiting_spins_for_the_time_asked_for(stream: Stream, runner: CudaRunner) -> None:
    start_s = time.perf_counter()
    wait_for(runner, 0.05, None)
    assert time.perf_counter() - start_s >= 0.05
    assert 0 < stream.launches * 1e-3 <= 0.06
