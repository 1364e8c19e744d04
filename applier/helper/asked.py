"""Which clock the driver had been told for an operation: what was asked for, whatever the plan says."""

from collections import deque
from typing import NamedTuple

_REMEMBERED = 64  # of them an operation and its neighbours need four


class _Told(NamedTuple):
    at_ns: int
    sm_clock_mhz: int | None
    position: int | None


class AskedClocks:
    """The last clocks that the driver was told."""

    def __init__(self) -> None:
        self._told: deque[_Told] = deque(maxlen=_REMEMBERED)

    def told(self, at_ns: int, sm_clock_mhz: int | None, position: int | None) -> None:
        """The driver was told a clock at this moment.

        Args:
            at_ns: when it began to be told.
            sm_clock_mhz: None where clocks were given back.
            position: the operation that it is for; None for what is not planned.
        """
        self._told.append(_Told(at_ns, sm_clock_mhz, position))

    def before(self, at_ns: int) -> int | None:
        """The clock that was told last by then; None where none was, or where clocks had been given back."""
        return next((one.sm_clock_mhz for one in reversed(self._told) if one.at_ns <= at_ns), None)

    def of(self, position: int, begin_ns: int, end_ns: int) -> int | None:
        """What was told last before an operation began, or for it while it ran: what comes early has it late."""
        for one in reversed(self._told):
            if one.at_ns <= begin_ns or (one.position == position and one.at_ns < end_ns):
                return one.sm_clock_mhz
        return None
