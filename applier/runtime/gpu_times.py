"""What operations took on the GPU, from CUDA events that are read when they have long happened.

Nothing here synchronises: events are recorded on the current stream, and an iteration's times are read once its
last event has been reached. Events are used again, so a long run makes no new ones.

Events tell what lies between them, and not when that was. Each is asked now and then whether it has happened: it
cannot have before it was recorded or while it said no, and it has by the time it says yes. All these bounds
together say when the first operation can have started; where the launching thread waits for the GPU, closely.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, NamedTuple

from energyopt.applier.runtime.channel import ANCHOR, OP_TIME, UNKNOWN

Ended = tuple[int, int]
"""A recorded iteration's number, and what the shim cost the training thread in it, ns."""

_PENDING = 3  # iterations whose events may be out at once; one more is not timed
_AT_ONCE = 4  # events asked at a call: each operation has two
_FIRST, _EVERY = (1, 2, 3), 100
_ROUNDING_NS = 100_000


class Timed(NamedTuple):
    """An iteration's times.

    ops: for each operation its position in the stage's list, and its start, since the first one's, and duration.
    anchor: the earliest that the first can have started, and by how much later it can have been; None where the
        bounds contradict each other.
    """

    number: int
    ops: list[tuple[int, int, int]]
    overhead_ns: int
    anchor: tuple[int, int] | None


@dataclass(slots=True, eq=False)
class _Mark:
    """An event, and what is known of when it happened: not before `after_ns`, and by `by_ns`."""

    event: Any
    after_ns: int
    by_ns: int | None = None


@dataclass(slots=True, eq=False)
class _Iteration:
    ops: list[tuple[int, _Mark, _Mark]] = field(default_factory=list)
    marks: deque[_Mark] = field(
        default_factory=deque
    )  # in the order of the stream, from the first not seen to happen


class GpuTimes:
    """Times of one rank's operations, one recorded iteration after the other.

    capturing: whether launched work goes into a CUDA graph now: an event in there never happens, and asking for it
        is an error, so such an iteration is not timed.
    """

    def __init__(
        self, event: Any, capturing: Callable[[], bool], now_ns: Callable[[], int] = monotonic_ns
    ) -> None:
        self._new_event = event
        self._capturing = capturing
        self._now_ns = now_ns
        self._free: list[Any] = []
        self._pending: deque[tuple[int, _Iteration, int]] = deque()
        self._now: _Iteration | None = None
        self._open: tuple[int, _Mark] | None = None

    def start(self) -> None:
        """An iteration to be timed begins."""
        self._now = _Iteration() if len(self._pending) < _PENDING else None

    def begin(self, position: int) -> None:
        """An operation's work is about to be launched; one that the plan does not know is not timed."""
        self._forget_open()
        if self._now is not None and self._capturing():
            self._now = None
        if self._now is not None:
            self._ask(self._now)
            if position != UNKNOWN:
                self._open = (position, self._mark(self._now))

    def end(self) -> None:
        """Its work was launched."""
        if self._now is not None and self._open is not None:
            position, start = self._open
            self._now.ops.append((position, start, self._mark(self._now)))
            self._open = None
            self._ask(self._now)

    def finish(self, number: int, overhead_ns: int) -> None:
        """An iteration has ended; `overhead_ns` is what the shim cost in it."""
        self._forget_open()
        self._pending.append((number, self._now or _Iteration(), overhead_ns))
        self._now = None

    def ready(self) -> Iterator[Timed]:
        """Each iteration whose events have all happened."""
        while self._pending and self._happened(self._pending[0][1]):
            number, one, overhead_ns = self._pending.popleft()
            ops = _times(one)
            yield Timed(number, ops, overhead_ns, _anchor(one, ops))
            self._free.extend(mark.event for _, start, end in one.ops for mark in (start, end))

    def _mark(self, one: _Iteration) -> _Mark:
        mark = _Mark(
            event=self._free.pop() if self._free else self._new_event(enable_timing=True),
            after_ns=self._now_ns(),
        )
        mark.event.record()
        one.marks.append(mark)
        return mark

    def _ask(self, one: _Iteration) -> None:
        """How far the GPU has come by now."""
        for _ in range(min(_AT_ONCE, len(one.marks))):
            asked_ns = self._now_ns()
            if not one.marks[0].event.query():
                one.marks[0].after_ns = asked_ns
                return
            one.marks.popleft().by_ns = self._now_ns()

    def _happened(self, one: _Iteration) -> bool:
        if not one.ops:
            return True
        last = one.ops[-1][2]
        if not last.event.query():
            return False
        last.by_ns = last.by_ns or self._now_ns()
        return True

    def _forget_open(self) -> None:
        """Nobody said when it ended."""
        if self._open is not None:
            mark = self._open[1]
            if self._now is not None and mark in self._now.marks:
                self._now.marks.remove(mark)
            self._free.append(mark.event)
            self._open = None


def _times(one: _Iteration) -> list[tuple[int, int, int]]:
    return [
        (position, _between_ns(one.ops[0][1], start), _between_ns(start, end))
        for position, start, end in one.ops
    ]


def _between_ns(one: _Mark, other: _Mark) -> int:
    elapsed_ms: float = one.event.elapsed_time(other.event)
    return max(round(elapsed_ms * 1e6), 0)


def _anchor(one: _Iteration, times: list[tuple[int, int, int]]) -> tuple[int, int] | None:
    """When the first operation can have started: the earliest, and how much later."""
    since_ns = [
        (mark, at_ns)
        for (_, start, end), (_, start_ns, time_ns) in zip(one.ops, times, strict=True)
        for mark, at_ns in ((start, start_ns), (end, start_ns + time_ns))
    ]
    if not since_ns:
        return None
    earliest_ns = max(mark.after_ns - at_ns for mark, at_ns in since_ns)
    latest_ns = min(mark.by_ns - at_ns for mark, at_ns in since_ns if mark.by_ns is not None)
    if not 0 <= earliest_ns <= latest_ns + _ROUNDING_NS:
        return None
    return earliest_ns, max(latest_ns - earliest_ns, 0)


def write_times(put: Callable[[int, int, int], None], times: GpuTimes | None, ended: Ended | None) -> None:
    """After an iteration's end: what the GPU took, as far as it is known by now, and what the shim cost."""
    if times is None:
        if ended is not None:
            put(OP_TIME | UNKNOWN, *ended)
        return
    for number, ops, overhead_ns, anchor in times.ready():
        if anchor is not None:
            put(OP_TIME | ANCHOR, *anchor)
        for op in ops:
            put(OP_TIME | op[0], op[1], op[2])
        put(OP_TIME | UNKNOWN, number, overhead_ns)


def is_timed(number: int) -> bool:
    """Whether an iteration is timed in any case, to see whether launches run ahead of the GPU."""
    return number in _FIRST or (number > 0 and number % _EVERY == 0)


def gpu_times() -> GpuTimes | None:
    """A timer, where this process's torch uses a GPU; torch is never imported for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return GpuTimes(torch.cuda.Event, torch.cuda.is_current_stream_capturing)
