"""The helper at work in virtual time: what comes first, and what makes it stop."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from energyopt.applier.devices.interface import ClockKnob
from energyopt.applier.helper import loop
from energyopt.applier.helper.board import Board
from energyopt.applier.helper.orders import Orders
from energyopt.applier.runtime import channel
from energyopt.applier.runtime.channel import BEGIN, END, OP_TIME, STEP, UNKNOWN

MS = 1_000_000


class Held:
    """What sets clocks, and takes no time."""

    def __init__(self) -> None:
        self.set_mhz: list[int] = []
        self.stopped = 0

    def lock(self, sm_clock_mhz: int) -> None:
        self.set_mhz.append(sm_clock_mhz)

    def stop(self) -> None:
        self.stopped += 1


class Bench:
    """A helper that looks when it is told to, and the training thread's end of its channel."""

    def __init__(self, board: Any, monkeypatch: pytest.MonkeyPatch, *, every: int = 1) -> None:
        self.now_ns, self.board, self.held = 0, board, Held()
        monkeypatch.setattr(loop.time, "monotonic_ns", lambda: self.now_ns)
        self.lines: list[dict[str, Any]] = []
        writes = type(
            "Shard", (), {"write": lambda _, value: self.lines.append(value), "close": lambda _: None}
        )
        monkeypatch.setattr(loop, "ShardWriter", lambda *_: writes())
        monkeypatch.setattr(loop, "describe", lambda _: None)
        board.capabilities = type("Known", (), {"knob": ClockKnob.APPLICATION_CLOCKS})
        memory = channel.create()
        orders = Orders(
            pid=os.getpid(),
            start_ticks=None,
            rank=0,
            memory=memory,
            device="0",
            apply=True,
            device_name="A100",
            clocks_mhz=((1305, 900, 1200),),
            safe_mhz=1410,
            site_lock_known=True,
            latency_s=0.01,
            shard="rank0.jsonl",
            header={"timer": "cuda_events"},
            every=every,
        )
        self.put = channel.Writer(memory).put
        self.helper = loop.Helper(orders, Board(device=board, held=self.held, problems=()))  # type: ignore[arg-type]
        os.close(memory)

    def at(self, at_ms: float, head: int | None = None, second: int = 0) -> None:
        """The training thread writes a record, and the helper looks at that moment."""
        self.now_ns = self.board.now_ns = int(at_ms * MS)
        if head is not None:
            self.put(head, self.now_ns, second)
        self.helper._follow()

    def iteration(self, number: int, at_ms: float, gap_ms: float = 100) -> None:
        self.at(at_ms, STEP | number << 1 | 1)
        for position in range(3):
            self.at(at_ms + (position + 1) * gap_ms, BEGIN | position)
        self.at(at_ms + 4 * gap_ms, END)

    def gpu_took(self, number: int, op_ms: float = 100) -> None:
        for position in range(3):
            self.put(OP_TIME | position, int(position * op_ms * MS), int(op_ms * MS))
        self.put(OP_TIME | UNKNOWN, number, 1000)


@pytest.fixture
def bench(virtual_board: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    return Bench(virtual_board(), monkeypatch)


def test_the_board_is_not_read_when_a_clock_is_due(bench: Bench) -> None:
    """A reading takes a millisecond or more: the clock of the second operation is due at 1190 ms."""
    bench.iteration(0, 0)
    bench.at(1000, STEP | 1 << 1 | 1)
    bench.at(1100, BEGIN | 0)
    looks, sets = bench.board.looks, len(bench.held.set_mhz)
    bench.at(1188.5)
    assert (bench.board.looks, len(bench.held.set_mhz)) == (looks, sets)
    bench.at(1190)
    assert (bench.board.looks, bench.held.set_mhz[-1]) == (looks + 1, 900), "then it is set, and then read"


def test_nor_is_telemetry_put_together(bench: Bench) -> None:
    """Iteration 0 could be from 750 ms on, when the readings after it are in; 790 ms is when a clock is due."""
    bench.iteration(0, 0)
    bench.at(450, STEP | 1 << 1 | 1)
    bench.at(700, BEGIN | 0)
    bench.gpu_took(0)
    bench.at(788.5)
    assert bench.lines == []
    bench.at(790)
    assert [line["iteration"] for line in bench.lines] == [0]


def test_launches_far_ahead_of_the_gpu_end_the_setting_for_good(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """All three operations are launched within 2 ms, and take 300."""
    for number in range(4):
        bench.iteration(number, 1000 * number, gap_ms=1)
        bench.gpu_took(number)
        bench.at(1000 * number + 900)
    assert bench.held.stopped == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "launches run 198 ms ahead of the GPU over an iteration of 200 ms" in said
    assert "from here on its clocks are left alone" in said
    sets = len(bench.held.set_mhz)
    bench.iteration(4, 9000)
    assert len(bench.held.set_mhz) == sets
    assert {"report": said.partition("rank 0: ")[2]} in bench.lines
    bench.at(9900, STEP | 5 << 1 | 1)
    bench.gpu_took(4)
    bench.at(11_000)
    assert bench.lines[-1]["iteration"] == 4
    assert bench.lines[-1]["alternative"] is None
    assert [op[3] for op in bench.lines[-1]["ops"]] == [None] * 3


def test_launches_that_keep_with_the_gpu_do_not(bench: Bench) -> None:
    for number in range(4):
        bench.iteration(number, 1000 * number)
        bench.gpu_took(number)
    assert bench.held.stopped == 0
    assert bench.held.set_mhz[-1] == 1410
