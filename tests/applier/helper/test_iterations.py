"""Iterations as the shard gets them, put together from records and readings in virtual time."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.helper.sampling import TAIL_NS
from energyopt.applier.runtime.channel import BEGIN, END, OP_TIME, OUTSIDE, STEP, UNKNOWN, Record

Make = Callable[..., Any]

MS = 1_000_000


def at(kind: int, at_ms: float, value: int = 0, second: int = 0) -> Record:
    return Record(kind, value, int(at_ms * MS), second)


def step(at_ms: float, number: int, *, recorded: bool = True, alternative: int = 0) -> Record:
    return at(STEP, at_ms, number << 1 | recorded, alternative)


def cost(number: int, ns: int) -> Record:
    return Record(OP_TIME, UNKNOWN, number, ns)


ONE = (step(1000, 0), at(BEGIN, 1010, 0), at(END, 1100), at(BEGIN, 1120, 1), at(END, 1500))


def test_one_iteration(bench: Any) -> None:
    bench.told(995, 1305, 0)
    bench.told(1100, 900, 1)
    (one,) = bench.follow(*ONE, step(1600, 1, recorded=False), cost(0, 12_345), until_ms=3000)
    assert one["iteration"] == 0
    assert one["alternative"] == 0
    assert one["time_s"] == pytest.approx(0.6)
    assert one["energy_j"] == pytest.approx(180.0, abs=8)
    assert one["achieved_sm_clock_mhz"] == 1200
    assert one["throttle"] == 0
    assert one["overhead_s"] == pytest.approx(12.345e-6)
    assert one["ops"] == [
        [0, pytest.approx(0.01), pytest.approx(0.09), 1305, 1200, 0],
        [1, pytest.approx(0.12), pytest.approx(0.38), 900, 1200, 0],
    ]


def test_it_is_given_out_when_the_readings_after_it_are_in(bench: Any) -> None:
    bench.follow(*ONE, step(1600, 1, recorded=False), cost(0, 1))
    assert bench.follow(until_ms=1600 + TAIL_NS / MS - 1) == []
    assert len(bench.follow(until_ms=1600 + TAIL_NS / MS + 1)) == 1
    assert not bench.recorder.wants_readings(bench.board.now_ns)
    looks = bench.board.looks
    bench.follow(until_ms=4000)
    assert bench.board.looks == looks, "a board is left alone while nothing is recorded"


def test_an_operation_ends_where_the_next_begins_if_nobody_says_so(bench: Any) -> None:
    (one,) = bench.follow(
        step(0, 0), at(BEGIN, 10, 0), at(BEGIN, 60, 1), step(200, 1), cost(0, 1), until_ms=1000
    )
    assert [op[1:3] for op in one["ops"]] == [pytest.approx([0.01, 0.05]), pytest.approx([0.06, 0.14])]


def test_what_is_not_planned_is_not_listed_and_ends_what_is(bench: Any) -> None:
    (one,) = bench.follow(
        step(0, 0),
        at(BEGIN, 10, 0),
        at(BEGIN, 60, UNKNOWN),
        at(END, 90),
        step(200, 1),
        cost(0, 1),
        until_ms=900,
    )
    assert [op[:3] for op in one["ops"]] == [[0, pytest.approx(0.01), pytest.approx(0.05)]]


def test_evaluation_belongs_to_no_iteration(bench: Any) -> None:
    """A minute of it, in which the board is not even looked at where the next iteration is not recorded."""
    bench.follow(*ONE, at(OUTSIDE, 1600, 1), at(BEGIN, 1610, UNKNOWN), at(END, 1620), until_ms=2500)
    looks = bench.board.looks
    (one,) = bench.follow(step(61_600, 1, recorded=False), cost(0, 1), until_ms=62_500)
    assert one["time_s"] == pytest.approx(0.6)
    assert one["energy_j"] == pytest.approx(180.0, abs=8)
    assert len(one["ops"]) == 2
    assert bench.board.looks - looks < 60


def test_but_an_iteration_may_go_on_after_something_else(bench: Any) -> None:
    (one,) = bench.follow(
        *ONE[:3],
        at(OUTSIDE, 1105, 1),
        at(BEGIN, 1110, UNKNOWN),
        *ONE[3:],
        step(1600, 1),
        cost(0, 1),
        until_ms=2500,
    )
    assert one["time_s"] == pytest.approx(0.6)
    assert len(one["ops"]) == 2


def test_a_short_iteration_is_one_without_operations(bench: Any) -> None:
    (one,) = bench.follow(
        step(0, 4),
        at(OUTSIDE, 0),
        at(BEGIN, 10, UNKNOWN),
        at(END, 90),
        step(400, 5),
        cost(4, 1),
        until_ms=1000,
    )
    assert (one["time_s"], one["ops"]) == (pytest.approx(0.4), [])


def test_sets_and_dropped_requests_are_those_of_the_iteration(bench: Any) -> None:
    bench.recorder.sets, bench.recorder.dropped = 100, 10
    bench.follow(step(0, 0))
    bench.recorder.sets, bench.recorder.dropped = 107, 12
    bench.follow(step(100, 1))
    bench.recorder.sets = 108
    first, second = bench.follow(step(200, 2, recorded=False), cost(0, 1), cost(1, 1), until_ms=900)
    assert (first["clock_sets"], first["dropped_requests"]) == (7, 2)
    assert (second["clock_sets"], second["dropped_requests"]) == (1, 0)


def test_words_about_nothing_known_are_dropped(bench: Any) -> None:
    assert bench.follow(cost(7, 1), Record(OP_TIME, 1, 0, 1), at(BEGIN, 5, 0), at(END, 6)) == []
    (one,) = bench.follow(*ONE, step(1600, 1), cost(9, 1), cost(0, 1), until_ms=2500)
    assert one["overhead_s"] == pytest.approx(1e-9)


def test_at_the_end_all_is_given_out_with_what_is_known(bench: Any) -> None:
    """But not the iteration that is open: nobody knows how much of what follows belongs to it."""
    bench.follow(*ONE, step(1600, 1), at(BEGIN, 1650, 0), step(1700, 2), at(BEGIN, 1710, 0), until_ms=1720)
    first, second = bench.recorder.finished(1720 * MS, all_of_them=True)
    assert (first["iteration"], second["iteration"]) == (0, 1)
    assert first["energy_j"] == pytest.approx(180.0, abs=12)
    assert first["overhead_s"] is None
    assert second["energy_j"] == pytest.approx(30.0, abs=12)


def test_nothing_grows_over_many_iterations(make_bench: Make) -> None:
    bench = make_bench()
    most = 0
    for number in range(2000):
        start_ms = 20 * number
        bench.follow(
            step(start_ms, number),
            *([] if number == 0 else [cost(number - 1, 5)]),
            at(BEGIN, start_ms + 2, 0),
            at(BEGIN, start_ms + 9, 1),
            at(END, start_ms + 15),
        )
        bench.done.clear()
        most = max(most, len(bench.recorder._waiting) + len(bench.sampler._samples))
    tail = TAIL_NS / MS
    assert most < 4 * tail / 20 + 10, "iterations and readings of the tail, at both ends"
