"""What of an iteration's operations the driver and the GPU tell: clocks asked for, and times."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.runtime.channel import ANCHOR, BEGIN, END, OP_TIME, STEP, UNKNOWN, Record

Make = Callable[..., Any]

MS = 1_000_000


def at(kind: int, at_ms: float, value: int = 0, second: int = 0) -> Record:
    return Record(kind, value, int(at_ms * MS), second)


def step(at_ms: float, number: int, *, recorded: bool = True, alternative: int = 0) -> Record:
    return at(STEP, at_ms, number << 1 | recorded, alternative)


def cost(number: int, ns: int) -> Record:
    return Record(OP_TIME, UNKNOWN, number, ns)


ONE = (step(1000, 0), at(BEGIN, 1010, 0), at(END, 1100), at(BEGIN, 1120, 1), at(END, 1500))


def asked(one: dict[str, Any]) -> list[int | None]:
    return [op[3] for op in one["ops"]]


def test_the_alternative_and_what_was_asked_for(bench: Any) -> None:
    bench.told(-10, 810, 0)
    bench.told(50, 705, 1)
    records = (step(0, 0, alternative=1), at(BEGIN, 10, 0), at(BEGIN, 60, 1), step(200, 1), cost(0, 1))
    (one,) = bench.follow(*records, until_ms=900)
    assert one["alternative"] == 1
    assert asked(one) == [810, 705]


def test_where_the_driver_is_told_nothing_nothing_was_asked_for(bench: Any) -> None:
    (one,) = bench.follow(*ONE, step(1600, 1), cost(0, 1), until_ms=2500)
    assert one["alternative"] is None
    assert asked(one) == [None, None]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([(990, 1305, 0), (1110, 900, 1)], [1305, 900]),  # ahead of each
        ([(1011, 1305, 0), (1121, 900, 1)], [1305, 900]),  # when each was seen to begin
        ([(500, 1410, None), (1130, 900, 1)], [1410, 900]),  # the first one's was overtaken
        ([(990, 1305, 0), (1090, 900, 1)], [1305, 900]),  # ahead of the second while the first runs
        ([(990, 1305, 0), (1110, 900, 0)], [1305, 900]),  # for the first, when that was over
        ([(990, 1305, 0)], [1305, 1305]),  # the second has the same
        ([(990, 1305, 0), (1510, 900, 1)], [1305, 1305]),  # too late for it
    ],
)
def test_what_the_driver_was_told_is_what_was_asked_for(
    bench: Any, told: list[tuple[int, int, int | None]], expected: list[int]
) -> None:
    for each in told:
        bench.told(*each)
    (one,) = bench.follow(*ONE, step(1600, 1), cost(0, 1), until_ms=2500)
    assert asked(one) == expected
    assert one["alternative"] == 0


def test_the_first_look_at_a_board_takes_part_of_an_iteration(bench: Any) -> None:
    """Nothing is set during it: that iteration did not run the plan, and the next one does."""
    bench.told(1130, 900, 1)
    bench.told(1600, 1305, 0)
    first, second = bench.follow(
        *ONE, step(1600, 1), at(BEGIN, 1610, 0), step(1700, 2), cost(0, 1), cost(1, 1), until_ms=2500
    )
    assert (first["alternative"], asked(first)) == (None, [None, 900])
    assert (second["alternative"], asked(second)) == (0, [1305])


def test_clocks_that_are_given_back_are_asked_for_no_longer(bench: Any) -> None:
    bench.told(990, 1305, 0)
    bench.told(1110, None, None)
    (one,) = bench.follow(*ONE, step(1600, 1), cost(0, 1), until_ms=2500)
    assert (one["alternative"], asked(one)) == (None, [1305, None])


def test_what_a_long_run_was_told_is_forgotten_but_not_too_early(bench: Any) -> None:
    """The GPU's times come late, and by then much else was told."""
    bench.recorder._gpu_times = True
    bench.told(990, 1305, 0)
    bench.told(1110, 900, 1)
    bench.follow(*ONE, step(1600, 1, recorded=False))
    for number in range(1000):
        bench.told(1600 + number, 810 + number % 2, 0)
    (one,) = bench.follow(Record(OP_TIME, 0, 0, 5), Record(OP_TIME, 1, 6, 7), cost(0, 1), until_ms=4000)
    assert (one["alternative"], asked(one)) == (0, [1305, 900])


def test_gpu_times_replace_those_of_the_launching_thread(make_bench: Make) -> None:
    """They may come iterations later, and count from the first operation's start, wherever that was launched."""
    bench = make_bench(gpu_times=True)
    bench.follow(*ONE, step(1600, 1), at(BEGIN, 1650, 0), step(2200, 2, recorded=False), until_ms=5000)
    assert bench.done == [], "the GPU has not said"
    one, other = bench.follow(
        Record(OP_TIME, ANCHOR, 1040 * MS, 2 * MS),
        Record(OP_TIME, 0, 0, 25 * MS),
        Record(OP_TIME, 1, 26 * MS, 37 * MS),
        cost(0, 1000),
        Record(OP_TIME, ANCHOR, 1660 * MS, 0),
        Record(OP_TIME, 0, 0, 9 * MS),
        cost(1, 2000),
        until_ms=5001,
    )
    assert [op[:3] for op in one["ops"]] == [
        [0, pytest.approx(0.041), pytest.approx(0.025)],
        [1, pytest.approx(0.067), pytest.approx(0.037)],
    ]
    assert [op[:3] for op in other["ops"]] == [[0, pytest.approx(0.060), pytest.approx(0.009)]]
    assert (one["overhead_s"], other["overhead_s"]) == (pytest.approx(1e-6), pytest.approx(2e-6))


@pytest.mark.parametrize("anchor", [[], [Record(OP_TIME, ANCHOR, 1010 * MS, 4 * MS + 1)]])
def test_where_it_is_not_known_when_the_gpu_began_nothing_is_made_up(
    make_bench: Make, anchor: list[Record]
) -> None:
    """What was seen of the board cannot be said to have been seen in an operation."""
    bench = make_bench(gpu_times=True)
    bench.told(1000, 1305, 0)
    times = (Record(OP_TIME, 0, 0, 25 * MS), Record(OP_TIME, 1, 26 * MS, 37 * MS))
    (one,) = bench.follow(*ONE, step(1600, 1), *anchor, *times, cost(0, 1), until_ms=2500)
    assert one["ops"] == [
        [0, None, pytest.approx(0.025), 1305, None, None],
        [1, None, pytest.approx(0.037), 1305, None, None],
    ]
    assert one["achieved_sm_clock_mhz"] == 1200


def test_an_operation_is_looked_at_where_it_surely_ran(make_bench: Make) -> None:
    """The GPU began between 1300 and 1304 ms; the clock changed at 1400, seen at the next look."""
    bench = make_bench(gpu_times=True)
    bench.follow(*ONE[:2], until_ms=1400)
    bench.board.sm_clock_mhz = 900
    (one,) = bench.follow(
        *ONE[3:],
        step(1600, 1),
        Record(OP_TIME, ANCHOR, 1300 * MS, 4 * MS),
        Record(OP_TIME, 0, 0, 98 * MS),
        Record(OP_TIME, 1, 98 * MS, 80 * MS),
        cost(0, 1),
        until_ms=2500,
    )
    assert [op[4] for op in one["ops"]] == [1200, 900]


def test_where_the_gpu_does_not_say_the_launching_thread_does_not_either(make_bench: Make) -> None:
    bench = make_bench(gpu_times=True)
    (one,) = bench.follow(*ONE, step(1600, 1), cost(0, 1), until_ms=2500)
    assert one["ops"] == []


def test_a_lost_word_costs_its_own_iteration_alone(make_bench: Make) -> None:
    """The end of iteration 0's list was overwritten: it is given out without, and 1 has its own."""
    bench = make_bench(gpu_times=True)
    first, second = bench.follow(
        step(0, 0),
        at(BEGIN, 10, 0),
        step(500, 1),
        at(BEGIN, 510, 0),
        step(1000, 2, recorded=False),
        Record(OP_TIME, 0, 0, 3 * MS),
        cost(1, 2000),
        until_ms=2000,
    )
    assert (first["iteration"], first["overhead_s"], first["ops"]) == (0, None, [])
    assert (second["iteration"], second["overhead_s"]) == (1, pytest.approx(2e-6))
