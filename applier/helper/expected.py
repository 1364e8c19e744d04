"""When the next recorded iteration begins: the board has to be read before that, for its energy's start."""

from collections import deque
from statistics import median

from energyopt.applier.helper.sampling import TAIL_NS

_REMEMBERED = 3  # a median of three forgets one pause
_EARLY = 10  # an iteration may begin so much of its usual time early, as a divisor


class NextRecorded:
    """Follows the iterations' starts.

    every: every how many iterations is recorded; 0 for none.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._spans_ns: deque[int] = deque(maxlen=_REMEMBERED)
        self._step_ns: int | None = None
        self._left = 0  # iterations until the next recorded one begins

    def step(self, at_ns: int, *, recorded: bool) -> None:
        """An iteration begins."""
        if self._step_ns is not None:
            self._spans_ns.append(at_ns - self._step_ns)
        self._step_ns = at_ns
        self._left = self._every if recorded else max(self._left - 1, 1)

    def is_near(self, now_ns: int) -> bool:
        """Whether one begins so soon that the board should be read by now, or could begin at any moment."""
        if self._every == 0:
            return False
        if self._every == 1 or self._step_ns is None:
            return True
        if not self._spans_ns:
            return self._left == 1
        span_ns = int(median(self._spans_ns))
        return now_ns >= self._step_ns + self._left * span_ns - span_ns // _EARLY - TAIL_NS
