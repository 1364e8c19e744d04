"""One-way records from the training thread to the process that sets clocks, through shared memory.

The writer never waits, locks or enters the kernel: a record costs it about a microsecond whatever the reader does.
A pipe would wake the reader at every write, which costs the writer 10 to 50 microseconds on a virtual machine. The
reader looks every millisecond or so. Where it falls behind by more than the ring holds, records are lost and
counted.

Each record carries its number and a check word, so that a reader on a processor that reorders stores (aarch64) sees
a record whole or not at all.
"""

import mmap
import os
import struct
from typing import NamedTuple

_RECORD = struct.Struct("<QQQQQ")  # number, head, first, second, check
_SLOTS = 1 << 15
_HEADER_BYTES = 4096
SIZE_BYTES = _HEADER_BYTES + _SLOTS * _RECORD.size

_HEARTBEAT = struct.Struct("<Q")
_SLOWDOWN = struct.Struct("<d")
_HEARTBEAT_AT, _SLOWDOWN_AT = 0, 8

BEGIN, END, STEP, OUTSIDE, OP_TIME, CLOSE = (kind << 32 for kind in range(1, 7))
"""Kinds of record; the low 32 bits of a head are the kind's own value.

BEGIN: position of the operation in the stage's list, or UNKNOWN; first is the time in ns.
END: first is the time in ns.
STEP: an iteration begins; value is its number times 2, plus 1 if it is recorded; first is the time in ns, second
    which alternative of the plan it runs (0 is the plan itself).
OUTSIDE: nothing is planned until the next STEP or BEGIN; value is 1 where the iteration has ended with it, first is
    the time in ns.
OP_TIME: what the GPU took for an operation of a recorded iteration; value is its position, first the start in ns
    since the first operation's, second the duration in ns. Position UNKNOWN ends the iteration's list; first is
    then the iteration's number, second what the shim cost the training thread in ns. Position ANCHOR, where there
    is one, begins it: first is the earliest that its first operation can have started, in ns, and second by how
    much later it can have been.
CLOSE: training is over.
"""

UNKNOWN = (1 << 32) - 1
ANCHOR = UNKNOWN - 1
VALUE_MASK = (1 << 32) - 1
NUMBER_MASK = (1 << 31) - 1
"""Of an iteration's number: at 10 iterations a second it begins again after seven years."""


class Record(NamedTuple):
    """One record as read."""

    kind: int
    value: int
    first: int
    second: int


def create() -> int:
    """A descriptor of shared memory, zeroed; it exists as long as somebody holds it."""
    descriptor = os.memfd_create("energyopt", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, SIZE_BYTES)
    return descriptor


class Writer:
    """The training thread's end."""

    def __init__(self, descriptor: int) -> None:
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # no page fault later on
        self._memory = mmap.mmap(descriptor, SIZE_BYTES, flags)
        self._number = 0
        self._pack_into = _RECORD.pack_into

    def put(self, head: int, first: int = 0, second: int = 0) -> None:
        """Write one record; from one thread only."""
        number = self._number + 1
        self._pack_into(
            self._memory,
            _HEADER_BYTES + (number % _SLOTS) * 40,
            number,
            head,
            first,
            second,
            number ^ head ^ first ^ second,
        )
        self._number = (
            number  # last: a signal that raises in here must not leave a gap, which stops the reader
        )

    def heartbeat_ns(self) -> int:
        """When the reader last looked, on the monotonic clock; 0 before it ever did."""
        return int(_HEARTBEAT.unpack_from(self._memory, _HEARTBEAT_AT)[0])

    def wished_slowdown(self) -> float:
        """What the reader found in the operator's file; 0 where there is none."""
        return float(_SLOWDOWN.unpack_from(self._memory, _SLOWDOWN_AT)[0])


class Reader:
    """The other process's end."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE_BYTES)
        self._next = 1
        self.lost = 0

    def take(self) -> Record | None:
        """The next record, or None where there is none yet."""
        number, head, first, second, check = _RECORD.unpack_from(
            self._memory, _HEADER_BYTES + (self._next % _SLOTS) * _RECORD.size
        )
        if number < self._next or number ^ head ^ first ^ second != check:
            return None
        self.lost += number - self._next  # it was overwritten, one or more rounds of the ring ago
        self._next = number + 1
        return Record(head & ~VALUE_MASK, head & VALUE_MASK, first, second)

    def beat(self, now_ns: int) -> None:
        """Say that this end lives."""
        _HEARTBEAT.pack_into(self._memory, _HEARTBEAT_AT, now_ns)

    def wish_slowdown(self, slowdown: float) -> None:
        """Pass on what the operator's file says."""
        _SLOWDOWN.pack_into(self._memory, _SLOWDOWN_AT, slowdown)
