"""Which clock the board should have now, and when the next change is due. No device, no clock of its own.

An operation's clock is asked for ahead of it, by as long as a change takes to land: the helper has seen in earlier
iterations how long after the one before it the operation begins. In the first iteration, or where an operation
begins earlier than expected, its clock is asked for when it begins. Where it does not come at all (a skipped step,
a replayed graph, a pause) the safe clock is asked for, and after three times in a row nothing is asked for ahead of
it.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median

from energyopt.applier.runtime.channel import BEGIN, END, OUTSIDE, STEP, UNKNOWN, Record

_REMEMBERED = 3  # a median of three forgets one straggling iteration
_GRACE_NS = 250_000_000  # how late an operation may be, beside as much again as it usually takes


class Clockwork:
    """Follows one rank's records. Times are in ns on the monotonic clock.

    lead_ns: how far ahead of an operation its clock is asked for; may change at any time.
    dropped: requests that a newer one overtook before the driver was told.
    wanted_for: the operation that the clock now wanted is for; None for what is not planned.
    span_ns: how long after the last operation (or step) the next one is expected; None where that is not known.
    """

    def __init__(self, clocks_mhz: Sequence[Sequence[int]], safe_mhz: int) -> None:
        self.lead_ns = 0
        self.dropped = 0
        self._alternatives = clocks_mhz
        self._clocks_mhz = clocks_mhz[0]
        self._safe_mhz = safe_mhz
        self._last = len(self._clocks_mhz) - 1
        self._spans = [deque[int](maxlen=_REMEMBERED) for _ in (*self._clocks_mhz, safe_mhz)]
        self._wanted_mhz: int | None = None
        self.wanted_for: int | None = None
        self._told_mhz: int | None = None
        self._ahead: tuple[int, int, int | None] | None = None  # when it is due, which clock, and what for
        self._position: int | None = None  # of the operation that began last; -1 for the iteration's start
        self._since_ns = 0
        self._overdue_ns: int | None = None  # when the operation that follows counts as not coming
        self.span_ns: int | None = None

    def feed(self, record: Record) -> None:
        """Take in what the training thread wrote."""
        if record.kind == BEGIN and record.value != UNKNOWN:
            self._begin(record.value, record.first)
        elif record.kind == END:
            if self._position == self._last:
                self._spans[self._last + 1].append(record.first - self._since_ns)
                self._lose_track()  # what follows the last operation is not planned
        elif record.kind == STEP:
            if self._position == -1:
                self._miss()
            self._clocks_mhz = self._alternatives[min(record.second, len(self._alternatives) - 1)]
            self._at(-1, record.first)
        elif record.kind in (BEGIN, OUTSIDE):
            self._lose_track()

    def target_mhz(self, now_ns: int) -> int | None:
        """The clock that the board should be told to take, None where nothing was asked for yet."""
        if self._overdue_ns is not None and now_ns >= self._overdue_ns:
            self._miss()
        elif self._ahead is not None and now_ns >= self._ahead[0]:
            self._want(*self._ahead[1:])
            self._ahead = None
        return self._wanted_mhz

    def told(self, sm_clock_mhz: int) -> None:
        """The driver was told this clock."""
        self._told_mhz = sm_clock_mhz

    @property
    def due_ns(self) -> int | None:
        """When the next change is due; None where it depends on what training does."""
        return None if self._ahead is None else self._ahead[0]

    def _begin(self, position: int, now_ns: int) -> None:
        if self._position == position - 1:
            self._spans[position].append(now_ns - self._since_ns)
        self._want(self._clocks_mhz[position], position)
        self._at(position, now_ns)

    def _at(self, position: int, now_ns: int) -> None:
        """Remember where training is, and look ahead to the operation that follows, or to the last one's end."""
        self._lose_sight()
        self._position, self._since_ns = position, now_ns
        following = position + 1
        if not self._spans[following]:
            return
        over = following > self._last
        clock_mhz = self._safe_mhz if over else self._clocks_mhz[following]
        self.span_ns = int(median(self._spans[following]))
        self._overdue_ns = now_ns + 2 * self.span_ns + self.lead_ns + _GRACE_NS
        if clock_mhz != self._wanted_mhz:
            self._ahead = (now_ns + self.span_ns - self.lead_ns, clock_mhz, None if over else following)

    def _miss(self) -> None:
        """The operation that follows does not come, so what runs instead is not planned."""
        assert self._position is not None
        if self._spans[self._position + 1]:
            self._spans[self._position + 1].popleft()
        self._lose_track()

    def _lose_track(self) -> None:
        self._lose_sight()
        self._want(self._safe_mhz, None)

    def _lose_sight(self) -> None:
        self._position, self._ahead, self._overdue_ns, self.span_ns = None, None, None, None

    def _want(self, sm_clock_mhz: int, position: int | None) -> None:
        self.wanted_for = position
        if sm_clock_mhz == self._wanted_mhz:
            return
        self.dropped += self._wanted_mhz != self._told_mhz
        self._wanted_mhz = sm_clock_mhz
