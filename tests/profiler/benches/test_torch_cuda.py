"""The launching loop for CUDA, against a stand-in for `torch.cuda` (see conftest.py)."""

import _thread
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from energyopt.applier.devices.interface import State, Throttle
from energyopt.profiler.benches.cuda import CudaRunner
from energyopt.profiler.benches.runners import wait_for
from energyopt.profiler.measurement.samples import Recorder

MOST_IDLE = 0.005
"""Above this share of idle time a window is thrown away."""


@pytest.fixture
def runner(stream: Any) -> CudaRunner:
    return CudaRunner(stream, "cuda:0")


@pytest.fixture
def virtual_runner(virtual: Any) -> CudaRunner:
    return CudaRunner(virtual, "cuda:0")


def _warm_run(runner: CudaRunner, stream: Any, step: Callable[[], object], repeats: int) -> float:
    """As a window does it: a shorter run before, from which the time of a step is known."""
    runner.run(step, max(1, repeats // 5), None)
    stream.begin()
    return runner.run(step, repeats, None)


def _polls_alive() -> bool:
    return any(thread.name == "energyopt-polls" for thread in threading.enumerate())


@pytest.mark.parametrize(("step_s", "repeats"), [(2e-5, 3000), (1e-3, 60), (0.03, 3)])
def test_all_repeats_run_and_the_time_is_theirs(
    stream: Any, runner: CudaRunner, step_s: float, repeats: int
) -> None:
    took_s = runner.run(partial(stream.launch, step_s), repeats, None)
    assert stream.launches == repeats
    assert took_s >= (1 - 1e-9) * step_s * repeats
    assert stream.free_s <= time.perf_counter()


@pytest.mark.parametrize(
    ("step_s", "launch_s", "repeats"),
    [(12e-6, 10e-6, 50_000), (1e-4, 1e-5, 5000), (1e-3, 1e-5, 500), (1e-3, 9e-4, 500), (0.03, 1e-4, 20)],
)
def test_a_host_that_launches_faster_than_the_gpu_works_keeps_it_busy(
    virtual: Any, virtual_runner: CudaRunner, step_s: float, launch_s: float, repeats: int
) -> None:
    virtual.launch_s = launch_s
    took_s = _warm_run(virtual_runner, virtual, partial(virtual.launch, step_s), repeats)
    assert took_s == pytest.approx(step_s * repeats, rel=0.01)
    assert virtual.dry_s / took_s - 1e-9 <= virtual_runner.idle_share <= MOST_IDLE


@pytest.mark.parametrize(("step_s", "launch_s"), [(3e-6, 6e-6), (1e-3, 1.1e-3), (0.02, 0.025)])
def test_steps_that_take_longer_to_launch_than_to_run_are_told(
    virtual: Any, virtual_runner: CudaRunner, step_s: float, launch_s: float
) -> None:
    virtual.launch_s = launch_s
    took_s = _warm_run(virtual_runner, virtual, partial(virtual.launch, step_s), 1000)
    assert virtual.dry_s > 0.09 * took_s
    assert virtual_runner.idle_share >= virtual.dry_s / took_s - 1e-9


def test_steps_that_wait_for_the_gpu_themselves_are_told(virtual: Any, virtual_runner: CudaRunner) -> None:
    """What the GPU idles between two of them cannot be told from their work."""

    def step() -> None:
        virtual.launch(1e-3)
        virtual.synchronize(None)

    virtual.launch_s = 1e-4
    took_s = _warm_run(virtual_runner, virtual, step, 500)
    assert virtual_runner.idle_share >= virtual.dry_s / took_s > 0.08


class Stalling:
    """A step whose launch keeps the host from going on for `stall_s`, every so many launches."""

    def __init__(self, stream: Any, step_s: float, stall_s: float, every: int) -> None:
        self.stream, self.step_s, self.stall_s, self.every = stream, step_s, stall_s, every
        self.left = every

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.stream.clock.sleep(self.stall_s)
            self.left = self.every
        self.stream.launch(self.step_s)


@pytest.mark.parametrize("stall_s", [5e-3, 0.012])
def test_stalls_of_the_host_up_to_a_dozen_milliseconds_are_not_felt(
    virtual: Any, virtual_runner: CudaRunner, stall_s: float
) -> None:
    virtual.launch_s = 1e-5
    took_s = _warm_run(virtual_runner, virtual, Stalling(virtual, 2e-4, stall_s, 500), 5000)
    assert virtual.dry_s == 0.0
    assert took_s == pytest.approx(1.0, rel=0.01)
    assert virtual_runner.idle_share <= MOST_IDLE


@pytest.mark.parametrize("stall_s", [0.03, 0.1])
def test_longer_stalls_are_told_with_what_they_cost(
    virtual: Any, virtual_runner: CudaRunner, stall_s: float
) -> None:
    virtual.launch_s = 1e-5
    took_s = _warm_run(virtual_runner, virtual, Stalling(virtual, 2e-4, stall_s, 1100), 5000)
    assert virtual.dry_s > 0.02
    assert virtual_runner.idle_share == pytest.approx(virtual.dry_s / took_s, rel=0.05)
    assert took_s - virtual.dry_s == pytest.approx(1.0, rel=0.01)


def test_nothing_wrong_is_learnt_from_stalls(virtual: Any, virtual_runner: CudaRunner) -> None:
    """Idle time must not be taken for the time of a step: chunks would shrink and the GPU would starve the more."""
    virtual.launch_s = 1e-5
    virtual_runner.run(Stalling(virtual, 1e-4, 0.046, 20), 2000, None)
    assert virtual_runner.idle_share > 0.5
    virtual.begin()
    assert virtual_runner.run(partial(virtual.launch, 1e-4), 5000, None) == pytest.approx(0.5, rel=0.01)
    assert virtual_runner.idle_share <= MOST_IDLE


@pytest.mark.parametrize("step_s", [1e-4, 1e-3, 3e-3])
def test_some_twenty_milliseconds_are_queued(virtual: Any, virtual_runner: CudaRunner, step_s: float) -> None:
    """A last chunk of 5 ms, rounded up to whole steps, may begin just below 20 ms."""
    _warm_run(virtual_runner, virtual, partial(virtual.launch, step_s), 1000)
    assert 0.015 <= virtual.most_queued_s <= 0.025 + step_s


class SlowBoard:
    """A board whose driver takes its time for each reading."""

    def __init__(self, call_s: float, tick_s: float) -> None:
        self.call_s, self.tick_s = call_s, tick_s

    def energy_j(self) -> float:
        time.sleep(self.call_s)
        return 300 * math.floor(time.perf_counter() / self.tick_s) * self.tick_s

    def power_w(self) -> float:
        time.sleep(self.call_s)
        return 300.0

    def state(self) -> State:
        time.sleep(3 * self.call_s)
        return State(sm_clock_mhz=1410, temperature_c=50.0, throttle=Throttle(0))


@pytest.mark.parametrize("call_ms", [0.5, 5, 46])
def test_slow_looks_at_the_board_cost_the_gpu_nothing(
    stream: Any, runner: CudaRunner, call_ms: float
) -> None:
    """On a busy machine the launching thread may stall for other reasons: it is then told, and tried again."""
    step_s, repeats, tick_s = 1e-3, 400, 0.04
    runner.run(partial(stream.launch, step_s), 50, None)
    for _ in range(8):
        stream.begin()
        device: Any = SlowBoard(call_ms / 1e3, tick_s)
        fine_from_s = time.perf_counter() + 0.95 * step_s * repeats - 1.25 * tick_s
        recorder = Recorder(device, fine_s=tick_s / 16, coarse_s=0.04, fine_from_s=fine_from_s)
        took_s = runner.run(partial(stream.launch, step_s), repeats, recorder)
        assert recorder.samples.energy_j
        assert runner.idle_share >= stream.dry_s / took_s - 1e-9  # never better than the truth
        if runner.idle_share <= MOST_IDLE and took_s <= 1.01 * step_s * repeats:
            return
    pytest.fail("no window out of 8 had the GPU busy")


@pytest.mark.parametrize("step_s", [1e-3, 0.1])
def test_polls_come_on_time_while_kernels_run(stream: Any, runner: CudaRunner, step_s: float) -> None:
    seen: list[float] = []

    def poll(now_s: float) -> float:
        assert threading.current_thread() is not threading.main_thread()
        seen.append(now_s)
        return now_s + 0.02

    start_s = time.perf_counter()
    runner.run(partial(stream.launch, step_s), round(0.2 / step_s), poll)
    assert len(seen) >= 3
    assert all(start_s <= one <= time.perf_counter() for one in seen)
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(seen))
    assert not _polls_alive()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_a_poll_raises_comes_through_with_nothing_left_running(
    stream: Any, runner: CudaRunner, error: type[BaseException]
) -> None:
    def poll(_: float) -> float:
        raise error

    with pytest.raises(error):
        runner.run(partial(stream.launch, 1e-3), 100_000, poll)
    assert stream.launches < 10_000
    assert stream.free_s <= time.perf_counter()
    assert not _polls_alive()


def test_what_the_last_poll_raises_is_not_lost(stream: Any, runner: CudaRunner) -> None:
    def poll(_: float) -> float:
        time.sleep(0.05)
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        runner.run(partial(stream.launch, 1e-3), 2, poll)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, as in a process of a user's; test runners may have changed that."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_nothing_running(stream: Any, runner: CudaRunner) -> None:
    def poll(_: float) -> float:
        _thread.interrupt_main()
        return math.inf

    with pytest.raises(KeyboardInterrupt):
        runner.run(partial(stream.launch, 1e-3), 100_000, poll)
    assert stream.launches < 10_000
    assert stream.free_s <= time.perf_counter()
    assert not _polls_alive()


def test_a_gpu_that_hangs_is_given_up_after_an_interrupt(virtual: Any, virtual_runner: CudaRunner) -> None:
    """A collective whose peer died never ends: neither the exit nor the release of memory may wait for it."""
    start_s = virtual.clock.now()

    def step() -> None:
        virtual.hangs = True
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        virtual_runner.run(step, 3, None)
    assert virtual.clock.now() - start_s == pytest.approx(10.0, abs=0.01)
    virtual_runner.release()
    assert virtual.emptied == 0


def test_the_first_error_is_raised_where_the_gpu_reports_it_again(
    virtual: Any, virtual_runner: CudaRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def step() -> None:
        monkeypatch.setattr(virtual, "synchronize", broken)
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        virtual_runner.run(step, 3, None)


def test_what_runs_on_other_streams_is_waited_for_and_counted(
    virtual: Any, virtual_runner: CudaRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "synchronize", lambda _: virtual.clock.sleep(0.5))
    virtual_runner.settle()
    took_s = virtual_runner.run(partial(virtual.launch, 1e-3), 100, None)
    assert took_s == pytest.approx(0.1 + 0.5, rel=0.01)


def test_waiting_spins_for_the_time_asked_for(virtual: Any, virtual_runner: CudaRunner) -> None:
    start_s = virtual.clock.now()
    wait_for(virtual_runner, 0.05, None)
    assert 0.05 <= virtual.clock.now() - start_s <= 0.055
    assert 50 <= virtual.launches <= 52
