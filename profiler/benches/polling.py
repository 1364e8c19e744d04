"""Looking at the board when it is due, and not before."""

import math
import threading
import time
from types import TracebackType
from typing import Self

from energyopt.profiler.benches.interface import Poll

LONGEST_END_S = 10.0
"""How long something that may hang (a driver call, a collective) is waited for after an interrupt."""

_LONGEST_PAUSE_S = 0.05


class Poller:
    """Calls a poll function when its time has come; without one, never.

    After each call it pauses for at least as long as the call took: eight GPUs can share one lock in the driver,
    and looks that follow one another without a break would hold it all the time.
    """

    def __init__(self, poll: Poll | None) -> None:
        self._poll = poll
        self._due_s = -math.inf if poll else math.inf

    def visit(self) -> None:
        """Call the function if it is due."""
        start_s = now()
        if self._poll is not None and start_s >= self._due_s:
            asked_s, end_s = self._poll(start_s), now()
            self._due_s = max(asked_s, end_s + (end_s - start_s))

    def pause_s(self, at_most_s: float = _LONGEST_PAUSE_S) -> float:
        """How long nothing is due."""
        return max(0.0, min(at_most_s, self._due_s - now()))


class PollThread:
    """Polls in a thread of its own: a driver call takes up to 50 ms, and the launching thread cannot wait for it.

    A context manager: the thread has ended at the exit, or after an exception `LONGEST_END_S` later at the latest.
    What the poll function raises is raised by `check`, or by the exit.
    """

    def __init__(self, poll: Poll | None) -> None:
        self._poller = Poller(poll)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if poll is not None:
            self._thread = threading.Thread(target=self._visit, name="energyopt-polls", daemon=True)

    def begin(self) -> None:
        """Start to poll."""
        if self._thread is not None:
            self._thread.start()

    def check(self) -> None:
        """Raise what the poll function raised; it is not called again after that."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(None if kind is None else LONGEST_END_S)
        if kind is None:
            self.check()

    def _visit(self) -> None:
        try:
            while not self._stop.wait(self._poller.pause_s()):
                self._poller.visit()
        except BaseException as error:  # carried over to the launching thread
            self._error = error


def now() -> float:
    """The clock of all benches that run on real hardware, s."""
    return time.perf_counter()


def sleep(duration_s: float, poll: Poll | None) -> None:
    """Let time pass, polling meanwhile."""
    poller, end_s = Poller(poll), now() + duration_s
    while (left_s := end_s - now()) > 0:
        poller.visit()
        time.sleep(min(poller.pause_s(), max(0.0, left_s)))
