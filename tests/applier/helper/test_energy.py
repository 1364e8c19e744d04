"""Energy of recorded iterations, against the board's own formula, where power is not the same all the time."""

import random
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest

from energyopt.applier.helper.iterations import Recorder
from energyopt.applier.helper.sampling import Sampler
from energyopt.applier.runtime.channel import OP_TIME, STEP, UNKNOWN, Record

MS = 1_000_000
IDLE_W, BUSY_W = 90.0, 350.0


class Training:
    """Iterations that begin with some idle time, watched by a helper that comes by every few ms."""

    def __init__(
        self, make_board: Callable[..., Any], *, length_ms: float, idle_ms: float, every: int
    ) -> None:
        self.chance = random.Random(7)
        self.every = every
        self.marks_ms = [2000.0]
        for _ in range(max(16 * every, 30) + 2):
            self.marks_ms.append(self.marks_ms[-1] + length_ms * self.chance.uniform(0.97, 1.03))
        self.idle_ms = idle_ms
        self.board = make_board(tick_s=0.1)
        self.board.used_j = lambda start_s, end_s: self.used_j(end_s) - self.used_j(start_s)
        self.sampler = Sampler(self.board, "counter")
        self.recorder = Recorder(self.sampler, every=every, gpu_times=False)
        self.done: list[dict[str, Any]] = []

    def used_j(self, at_s: float) -> float:
        """Since the board was switched on."""
        idle_s = sum(min(max(at_s - mark * 1e-3, 0.0), self.idle_ms * 1e-3) for mark in self.marks_ms)
        return BUSY_W * at_s - (BUSY_W - IDLE_W) * idle_s

    def run(self) -> None:
        at_ms = self.marks_ms[0] - 5
        for number, mark_ms in enumerate(self.marks_ms):
            while at_ms < mark_ms:
                self.look(at_ms)
                at_ms += self.chance.uniform(1, 6)
            self.recorder.feed(Record(STEP, number << 1 | (number % self.every == 0), int(mark_ms * MS), 0))
            self.recorder.feed(Record(OP_TIME, UNKNOWN, number - 1, 1))
        self.look(at_ms)

    def look(self, at_ms: float) -> None:
        self.board.now_ns = int(at_ms * MS)
        if self.recorder.wants_readings(self.board.now_ns):
            self.sampler.look(self.board.now_ns)
        self.done += self.recorder.finished(self.board.now_ns)

    def errors(self) -> list[float]:
        """Of each recorded iteration but the first, before which nobody could look; relative."""
        found = []
        for one in self.done[1:]:
            start_s, end_s = (self.marks_ms[one["iteration"] + more] * 1e-3 for more in (0, 1))
            found.append(one["energy_j"] / (self.used_j(end_s) - self.used_j(start_s)) - 1)
        return found


@pytest.mark.parametrize("every", [1, 2, 10])
@pytest.mark.parametrize("idle_ms", [0, 60, 80, 100])
def test_iterations_that_begin_idle_are_not_told_too_high(
    virtual_board: Callable[..., Any], idle_ms: float, every: int
) -> None:
    """Iterations of 1 s at ticks of 100 ms.

    A single one is wrong by up to what a look takes at each end. On average what one end lacks the other end has,
    for the board is read in the same way around both.
    """
    training = Training(virtual_board, length_ms=1000, idle_ms=idle_ms, every=every)
    training.run()
    errors = training.errors()
    assert len(errors) >= 15
    assert abs(mean(errors)) <= 0.005
