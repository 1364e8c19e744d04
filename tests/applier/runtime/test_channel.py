"""Records through shared memory, with both ends in one process."""

import mmap
import os
import struct
from collections.abc import Iterator

import pytest

from energyopt.applier.runtime import channel
from energyopt.applier.runtime.channel import BEGIN, END, STEP, Reader, Record, Writer

HEADER_BYTES, RECORD_BYTES, SLOTS = 4096, 40, 1 << 15  # the layout, as documented


class Ends:
    def __init__(self) -> None:
        self.descriptor = channel.create()
        self.writer, self.reader = Writer(self.descriptor), Reader(self.descriptor)
        self.memory = mmap.mmap(self.descriptor, channel.SIZE_BYTES)

    def word(self, number: int, word: int) -> int:
        """Where a word of a record stands."""
        return HEADER_BYTES + number % SLOTS * RECORD_BYTES + 8 * word


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    os.close(ends.descriptor)


def test_records_come_out_as_they_went_in(ends: Ends) -> None:
    assert ends.reader.take() is None
    ends.writer.put(BEGIN | 7, 12345678901234567)
    ends.writer.put(STEP | (1 << 32) - 1, 2**63, 2**64 - 1)
    assert ends.reader.take() == Record(BEGIN, 7, 12345678901234567, 0)
    assert ends.reader.take() == Record(STEP, (1 << 32) - 1, 2**63, 2**64 - 1)
    assert ends.reader.take() is None


@pytest.mark.parametrize("word", range(5))
@pytest.mark.parametrize("bit", [0, 17, 40, 63])
def test_a_record_is_seen_whole_or_not_at_all(ends: Ends, word: int, bit: int) -> None:
    """As if one word of it had not arrived yet."""
    ends.writer.put(BEGIN | 3, 1000, 2000)
    at = ends.word(1, word)
    (right,) = struct.unpack_from("<Q", ends.memory, at)
    struct.pack_into("<Q", ends.memory, at, right ^ 1 << bit)
    assert ends.reader.take() is None
    assert ends.reader.lost == 0
    struct.pack_into("<Q", ends.memory, at, right)
    assert ends.reader.take() == Record(BEGIN, 3, 1000, 2000)


@pytest.mark.parametrize("words", range(5))
def test_a_record_is_not_mixed_with_the_one_before_it_in_its_place(ends: Ends, words: int) -> None:
    """The first words are the new record's, the rest are those of a round ago."""
    for number in range(1, SLOTS + 1):
        ends.writer.put(BEGIN | 5, number * 1000)
        assert ends.reader.take() is not None
    at = ends.word(1, 0)
    old = ends.memory[at : at + RECORD_BYTES]
    ends.writer.put(BEGIN | 6, 77)
    new = ends.memory[at : at + RECORD_BYTES]
    ends.memory[at : at + RECORD_BYTES] = new[: words * 8] + old[words * 8 :]
    assert ends.reader.take() is None
    ends.memory[at : at + RECORD_BYTES] = new
    assert ends.reader.take() == Record(BEGIN, 6, 77, 0)


@pytest.mark.parametrize("behind", [SLOTS + 1, 3 * SLOTS + 17])
def test_what_a_slow_reader_misses_is_counted(ends: Ends, behind: int) -> None:
    for number in range(1, behind + 1):
        ends.writer.put(BEGIN, number)
    taken = list(iter(ends.reader.take, None))
    assert len(taken) + ends.reader.lost == behind
    assert ends.reader.lost > 0
    assert taken[-1].first == behind, "the newest is never lost"
    assert [one.first for one in taken] == sorted(one.first for one in taken)
    ends.writer.put(END, 1)
    assert ends.reader.take() == Record(END, 0, 1, 0)


def test_a_signal_in_the_middle_of_a_record_stops_nothing(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives right before the record is written, and somebody catches it."""
    ends.writer.put(BEGIN, 1)
    with monkeypatch.context() as patch:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(ends.writer, "_pack_into", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ends.writer.put(BEGIN, 2)
    ends.writer.put(BEGIN, 3)
    assert [one.first for one in iter(ends.reader.take, None)] == [1, 3]


def test_the_other_way(ends: Ends) -> None:
    assert (ends.writer.heartbeat_ns(), ends.writer.wished_slowdown()) == (0, 0.0)
    ends.reader.beat(12345678901234)
    ends.reader.wish_slowdown(1.15)
    assert (ends.writer.heartbeat_ns(), ends.writer.wished_slowdown()) == (12345678901234, 1.15)


def test_the_memory_is_nobody_elses_and_new(ends: Ends) -> None:
    """It has no name, so there is nothing stale to find; and no child gets it unasked."""
    assert os.fstat(ends.descriptor).st_nlink == 0
    assert not os.get_inheritable(ends.descriptor)
    assert not any(ends.memory[:])
