"""What operations took on the GPU, from CUDA events that are read when they have long happened.

Nothing here synchronises: events are recorded on the current stream, and an iteration's times are read once its
last event has been reached. Events are used again, so a long run makes no new ones.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from energyopt.applier.runtime.channel import OP_TIME, UNKNOWN

Times = list[tuple[int, int, int]]
"""For each operation its position in the stage's list, and its start and duration in ns."""

Ended = tuple[int, int]
"""A recorded iteration's number, and what the shim cost the training thread in it, ns."""

_PENDING = 3  # iterations whose events may be out at once; one more is not timed


class GpuTimes:
    """Times of one rank's operations, one recorded iteration after the other.

    capturing: whether launched work goes into a CUDA graph now: an event in there never happens, and asking for it
        is an error, so such an iteration is not timed.
    """

    def __init__(self, event: Any, capturing: Callable[[], bool]) -> None:
        self._new_event = event
        self._capturing = capturing
        self._free: list[Any] = []
        self._pending: deque[tuple[int, list[tuple[int, Any, Any]], int]] = deque()
        self._ops: list[tuple[int, Any, Any]] | None = None
        self._open: tuple[int, Any] | None = None

    def start(self) -> None:
        """An iteration to be timed begins."""
        self._ops = [] if len(self._pending) < _PENDING else None

    def begin(self, position: int) -> None:
        """An operation's work is about to be launched; one that the plan does not know is not timed."""
        self._forget_open()
        if self._ops is not None and self._capturing():
            self._ops = None
        if self._ops is not None and position != UNKNOWN:
            event = self._event()
            event.record()
            self._open = (position, event)

    def end(self) -> None:
        """Its work was launched."""
        if self._ops is not None and self._open is not None:
            event = self._event()
            event.record()
            self._ops.append((*self._open, event))
            self._open = None

    def finish(self, number: int, overhead_ns: int) -> None:
        """An iteration has ended; `overhead_ns` is what the shim cost in it."""
        self._pending.append((number, self._ops or [], overhead_ns))
        self._forget_open()
        self._ops = None

    def ready(self) -> Iterator[tuple[int, Times, int]]:
        """For each iteration whose events have all happened: its number, its operations' times, and overhead."""
        while self._pending and self._happened(self._pending[0][1]):
            number, ops, overhead_ns = self._pending.popleft()
            yield number, [self._times(ops[0][1], *op) for op in ops], overhead_ns
            self._free.extend(event for _, start, end in ops for event in (start, end))

    def _forget_open(self) -> None:
        """Nobody said when it ended."""
        if self._open is not None:
            self._free.append(self._open[1])
            self._open = None

    def _event(self) -> Any:
        return self._free.pop() if self._free else self._new_event(enable_timing=True)

    @staticmethod
    def _happened(ops: list[tuple[int, Any, Any]]) -> bool:
        return not ops or bool(ops[-1][2].query())

    @staticmethod
    def _times(first: Any, position: int, start: Any, end: Any) -> tuple[int, int, int]:
        return position, round(first.elapsed_time(start) * 1e6), round(start.elapsed_time(end) * 1e6)


def write_times(put: Callable[[int, int, int], None], times: GpuTimes | None, ended: Ended | None) -> None:
    """After an iteration's end: what the GPU took, as far as it is known by now, and what the shim cost."""
    if times is None:
        if ended is not None:
            put(OP_TIME | UNKNOWN, *ended)
        return
    for number, ops, overhead_ns in times.ready():
        for position, start_ns, time_ns in ops:
            put(OP_TIME | position, max(start_ns, 0), max(time_ns, 0))
        put(OP_TIME | UNKNOWN, number, overhead_ns)


def gpu_times() -> GpuTimes | None:
    """A timer, where this process's torch uses a GPU; torch is never imported for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return GpuTimes(torch.cuda.Event, torch.cuda.is_current_stream_capturing)
