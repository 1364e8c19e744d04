"""A board in virtual time, and a recorder that reads it."""

import json
from collections.abc import Callable
from math import floor
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, State
from energyopt.applier.helper.iterations import Recorder
from energyopt.applier.helper.sampling import Sampler
from energyopt.applier.runtime.channel import OP_TIME, Record
from energyopt.schemas.errors import DeviceError

MS = 1_000_000


class VirtualBoard:
    """Draws `power_w(t)` at `now_ns`; its counter shows what it was at the last tick's edge.

    counter, power: whether it has them. lost: whether it has fallen off the bus. looks: how often it was read.
    """

    def __init__(self, power_w: float | Callable[[float], float] = 300.0, tick_s: float = 0.02) -> None:
        self._power_w = power_w if callable(power_w) else (lambda _: power_w)
        self._tick_s = tick_s
        self.now_ns = 0
        self.counter = self.power = True
        self.restarted_s = 0.0
        self.lost = False
        self.looks = 0
        self.sm_clock_mhz: int | Absent = 1200
        self.throttle: Any = 0

    def state(self) -> State:
        self.looks += 1
        if self.lost:
            raise DeviceError("GPU is lost")
        return State(
            sm_clock_mhz=self.sm_clock_mhz, temperature_c=Absent(reason="no sensor"), throttle=self.throttle
        )

    def energy_j(self) -> float | Absent:
        if not self.counter:
            return Absent(reason="not supported")
        now_s = self.now_ns * 1e-9
        edge_s = floor(now_s / self._tick_s) * self._tick_s
        return self.used_j(self.restarted_s, edge_s) if edge_s > self.restarted_s else 0.0

    def power_w(self) -> float | Absent:
        return self._power_w(self.now_ns * 1e-9) if self.power else Absent(reason="not supported")

    def used_j(self, start_s: float, end_s: float, steps: int = 200) -> float:
        """The integral of power by the midpoint rule."""
        width_s = (end_s - start_s) / steps
        return sum(self._power_w(start_s + (k + 0.5) * width_s) for k in range(steps)) * width_s


@pytest.fixture
def virtual_board() -> type[VirtualBoard]:
    return VirtualBoard


class RecorderBench:
    """A recorder whose board is read every 20 ms while the recorder wants it."""

    def __init__(self, board: Any, *, every: int = 10, gpu_times: bool = False) -> None:
        self.board = board
        self.sampler = Sampler(board, "counter")
        self.recorder = Recorder(self.sampler, every=every, gpu_times=gpu_times)
        self.done: list[dict[str, Any]] = []

    def until(self, at_ms: float) -> None:
        while self.board.now_ns + MS <= at_ms * MS:
            self.board.now_ns += MS
            if self.recorder.wants_readings(self.board.now_ns):
                self.sampler.look(self.board.now_ns)
            self.done += self.recorder.finished(self.board.now_ns)

    def follow(self, *records: Record, until_ms: float | None = None) -> list[dict[str, Any]]:
        for record in records:
            if record.kind != OP_TIME:
                self.until(record.first / MS)
            self.recorder.feed(record)
        if until_ms is not None:
            self.until(until_ms)
        json.dumps(self.done, allow_nan=False)
        return self.done

    def told(self, at_ms: float, sm_clock_mhz: int | None, position: int | None = None) -> None:
        self.recorder.asked.told(int(at_ms * MS), sm_clock_mhz, position)


@pytest.fixture
def make_bench(virtual_board: type[VirtualBoard]) -> Callable[..., RecorderBench]:
    """`make_bench(gpu_times=True)`: a recorder of a board of 300 W."""
    return lambda **options: RecorderBench(virtual_board(), **options)


@pytest.fixture
def bench(make_bench: Callable[..., RecorderBench]) -> RecorderBench:
    return make_bench()
