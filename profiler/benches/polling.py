"""Looking at the board when it is due, and not before."""

import math
import time

from energyopt.profiler.benches.interface import Poll

_LONGEST_PAUSE_S = 0.05


class Poller:
    """Calls a poll function when its time has come; without one, never."""

    def __init__(self, poll: Poll | None) -> None:
        self._poll = poll
        self._due_s = -math.inf if poll else math.inf

    def visit(self) -> None:
        """Call the function if it is due."""
        now_s = now()
        if self._poll is not None and now_s >= self._due_s:
            self._due_s = self._poll(now_s)

    def pause_s(self, at_most_s: float = _LONGEST_PAUSE_S) -> float:
        """How long nothing is due."""
        return max(0.0, min(at_most_s, self._due_s - now()))


def now() -> float:
    """The clock of all benches that run on real hardware, s."""
    return time.perf_counter()


def sleep(duration_s: float, poll: Poll | None) -> None:
    """Let time pass, polling meanwhile."""
    poller, end_s = Poller(poll), now() + duration_s
    while (left_s := end_s - now()) > 0:
        poller.visit()
        time.sleep(min(poller.pause_s(), max(0.0, left_s)))
