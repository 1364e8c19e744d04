"""Launches that run ahead of the GPU, in virtual time."""

import pytest

from energyopt.applier.helper.launch_lead import LaunchLead
from energyopt.applier.runtime.channel import ANCHOR, BEGIN, END, OP_TIME, STEP, UNKNOWN, Record

MS = 1_000_000
OPS = 10


def iteration(
    number: int,
    *,
    launch_ms: float,
    gpu_ms: float,
    behind_ms: float | None = None,
    timed: bool = True,
    ops: int = OPS,
) -> list[Record]:
    """Operations launched every `launch_ms`, each of `gpu_ms` on the GPU.

    behind_ms: how long after its launch the first is known to have started, where the events tell.
    """
    start_ms = 10_000.0 * number
    records = [Record(STEP, number << 1, int(start_ms * MS), 0)]
    for position in range(ops):
        at_ms = start_ms + 1 + launch_ms * position
        records += [Record(BEGIN, position, int(at_ms * MS), 0), Record(END, 0, int((at_ms + 0.1) * MS), 0)]
    records.append(Record(BEGIN, UNKNOWN, int((start_ms + 5000) * MS), 0))
    if not timed:
        return records
    if behind_ms is not None:
        records.append(Record(OP_TIME, ANCHOR, int((start_ms + 1 + behind_ms) * MS), 0))
    times = [Record(OP_TIME, k, int(gpu_ms * k * MS), int(gpu_ms * MS)) for k in range(ops)]
    return [*records, *times, Record(OP_TIME, UNKNOWN, number, 1000)]


def follow(*iterations: list[Record]) -> str | None:
    lead = LaunchLead()
    for records in iterations:
        for record in records:
            lead.feed(record)
    return lead.complaint


def test_all_at_once() -> None:
    """Ten operations of 100 ms, launched one a millisecond: the last one 9 ms after the first, run 900 after."""
    slow = [iteration(number, launch_ms=1, gpu_ms=100) for number in (1, 2)]
    assert follow(slow[0]) is None, "one may be an accident"
    said = follow(*slow)
    assert said is not None
    assert "launches run 891 ms ahead of the GPU over an iteration of 900 ms" in said
    assert "waits for its transfers" in said
    assert "CUDA_LAUNCH_BLOCKING would slow" in said


@pytest.mark.parametrize(
    ("launch_ms", "ahead"), [(100, False), (150, False), (81, False), (79, True), (5, True)]
)
def test_launches_that_span_less_than_four_fifths_are_ahead(launch_ms: float, ahead: bool) -> None:
    said = follow(*(iteration(number, launch_ms=launch_ms, gpu_ms=100) for number in (1, 2, 3)))
    assert (said is not None) == ahead


def test_a_queue_that_is_always_full() -> None:
    """Launches are as slow as the GPU, and half an iteration ahead of it all the time."""
    said = follow(*(iteration(number, launch_ms=100, gpu_ms=100, behind_ms=450) for number in (1, 2)))
    assert said is not None
    assert "450 ms ahead" in said
    assert follow(*(iteration(number, launch_ms=100, gpu_ms=100, behind_ms=4) for number in (1, 2))) is None


def test_two_accidents_far_apart_are_forgiven() -> None:
    good = [iteration(number, launch_ms=100, gpu_ms=100) for number in range(20)]
    bad = [iteration(number, launch_ms=1, gpu_ms=100) for number in range(20)]
    assert follow(*good[:5], bad[5], *good[6:10], bad[10], *good[11:]) is None
    assert follow(*good[:5], bad[5], good[6], bad[7]) is not None


def test_operations_too_short_for_a_clock_of_their_own() -> None:
    """A lead of 4 ms is what a change takes to land."""
    assert follow(*(iteration(number, launch_ms=0.1, gpu_ms=0.5) for number in (1, 2, 3))) is None


def test_what_cannot_be_compared_says_nothing() -> None:
    one = [iteration(number, launch_ms=1, gpu_ms=100, ops=1) for number in (1, 2, 3)]
    assert follow(*one) is None
    untimed = [iteration(number, launch_ms=1, gpu_ms=100, timed=False) for number in (1, 2, 3)]
    assert follow(*untimed) is None
    words = [record for number in (1, 2) for record in iteration(number, launch_ms=1, gpu_ms=100)]
    assert follow([record for record in words if record.kind == OP_TIME]) is None, "launches were lost"


def test_times_that_come_late_belong_to_their_iteration() -> None:
    """Those of iteration 1 come while 2 and 3 run: its own launches count."""
    first, second = (iteration(number, launch_ms=100, gpu_ms=100) for number in (1, 2))
    launches = [record for record in first if record.kind != OP_TIME]
    times = [record for record in first if record.kind == OP_TIME]
    haste = [iteration(number, launch_ms=1, gpu_ms=100, timed=False) for number in (2, 3)]
    assert follow(launches, *haste, times, second) is None
