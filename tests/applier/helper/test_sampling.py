"""What is read off a board for an iteration, in virtual time, against the board's own formula."""

import math
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Throttle
from energyopt.applier.helper import sampling
from energyopt.applier.helper.sampling import INTERVAL_NS, TAIL_NS, Sampler
from energyopt.schemas.errors import DeviceError

Board = Callable[..., Any]

MS = 1_000_000
SLOPE_S = 0.3  # over how much the power is taken that extrapolation needs


def watch(sampler: Sampler, board: Any, start_ms: float, end_ms: float, every_ms: float = 1.0) -> None:
    """A helper's loop between two moments: it comes by every so often, with some jitter."""
    jitter = random.Random(1)
    at_ms = start_ms
    while at_ms <= end_ms:
        board.now_ns = int(at_ms * MS)
        sampler.look(board.now_ns)
        at_ms += every_ms * jitter.uniform(0.5, 1.5)


@pytest.mark.parametrize("tick_ms", [10, 20, 25, 100])
@pytest.mark.parametrize("length_ms", [150, 400, 3000])
@pytest.mark.parametrize("start_ms", [1000, 1003.7, 1012, 1019.9])
def test_energy_at_constant_power(
    virtual_board: Board, tick_ms: float, length_ms: float, start_ms: float
) -> None:
    """A tick is seen late by less than the time between two looks, or than a tick, whichever is shorter.

    So a point of the curve is late by at most L. Readings begin with the iteration: the first tick comes up to a
    tick and two looks after that, and is extrapolated from with a slope that is wrong by at most L in 0.3 s, or in
    what there is of the iteration and the tail.
    """
    board = virtual_board(power_w=300.0, tick_s=tick_ms * 1e-3)
    sampler = Sampler(board, "counter")
    watch(sampler, board, start_ms, start_ms + length_ms + TAIL_NS / MS)
    found_j = sampler.energy_j(int(start_ms * MS), int((start_ms + length_ms) * MS))
    look_ms = INTERVAL_NS / MS + 1.5
    late_ms = min(look_ms, tick_ms)
    bound_ms = late_ms * (1 + (tick_ms + 2 * look_ms) / (SLOPE_S * 1e3 - tick_ms))
    assert found_j == pytest.approx(300.0 * length_ms * 1e-3, abs=300.0 * bound_ms * 1e-3)
    assert found_j > 0


def test_energy_of_iterations_in_a_row_adds_up(virtual_board: Board) -> None:
    """Whatever the boundaries' errors are, what one iteration lacks the next one has."""
    board = virtual_board(power_w=lambda t: 200 + 100 * math.sin(9 * t))
    sampler = Sampler(board, "counter")
    watch(sampler, board, 0, 5000)
    marks = [500, 830, 1500, 1510, 2600, 4400]
    parts = [sampler.energy_j(a * MS, b * MS) for a, b in pairwise(marks)]
    assert sum(parts) == pytest.approx(sampler.energy_j(500 * MS, 4400 * MS), rel=1e-9)
    assert sum(parts) == pytest.approx(board.used_j(0.5, 4.4), abs=300 * 0.0215)


def test_a_counter_that_restarts_gives_nothing(virtual_board: Board) -> None:
    board = virtual_board()
    sampler = Sampler(board, "counter")
    watch(sampler, board, 0, 1000)
    board.restarted_s = 1.0
    watch(sampler, board, 1001, 2000)
    assert sampler.energy_j(200 * MS, 1500 * MS) is None
    sampler.forget_before(1100 * MS)
    assert sampler.energy_j(1300 * MS, 1700 * MS) == pytest.approx(120.0, abs=8), "and is right again"


@pytest.mark.parametrize("power_w", [300.0, lambda t: 200 + 100 * math.sin(9 * t)])
def test_without_a_counter_power_is_integrated(virtual_board: Board, power_w: Any) -> None:
    """By the trapezoidal rule: wrong by at most h^2/12 * T * |P''|, and by what extrapolation adds."""
    board = virtual_board(power_w=power_w)
    board.counter = False
    sampler = Sampler(board, "power_integral")
    watch(sampler, board, 1000, 3300)
    found_j = sampler.energy_j(1000 * MS, 3000 * MS)
    assert found_j == pytest.approx(board.used_j(1.0, 3.0), abs=0.0215**2 / 12 * 2 * 8100 + 0.01)


def test_integrated_power_has_no_holes(virtual_board: Board) -> None:
    """The driver hung for 1.5 s, so nobody knows what was used."""
    board = virtual_board()
    sampler = Sampler(board, "power_integral")
    watch(sampler, board, 0, 1000)
    watch(sampler, board, 2500, 4000)
    assert sampler.energy_j(500 * MS, 3000 * MS) is None
    assert sampler.energy_j(1200 * MS, 1300 * MS) is None
    assert sampler.energy_j(200 * MS, 800 * MS) == pytest.approx(180.0)
    assert sampler.energy_j(2700 * MS, 3700 * MS) == pytest.approx(300.0)


@pytest.mark.parametrize("source", ["counter", "power_integral", None])
def test_absent_is_null_and_never_zero(virtual_board: Board, source: str | None) -> None:
    board = virtual_board()
    board.counter = board.power = False
    board.sm_clock_mhz = Absent(reason="not supported")
    board.throttle = Absent(reason="not supported")
    sampler = Sampler(board, source)
    watch(sampler, board, 0, 1000)
    assert sampler.energy_j(0, 1000 * MS) is None
    assert sampler.clock_mhz(0, 1000 * MS) is None
    assert sampler.throttle(0, 1000 * MS) is None


def test_a_counter_that_stands_still_tells_nothing(virtual_board: Board) -> None:
    board = virtual_board(power_w=0.0)
    sampler = Sampler(board, "counter")
    watch(sampler, board, 0, 1000)
    assert sampler.energy_j(0, 1000 * MS) is None


def test_a_board_that_is_not_there() -> None:
    sampler = Sampler(None, None)
    sampler.look(5)
    assert sampler.energy_j(0, 100) is None


@pytest.mark.parametrize(("tick_ms", "beyond_ms"), [(10, 90), (50, 130), (100, 260), (100, 5000)])
def test_nothing_is_extrapolated_far(virtual_board: Board, tick_ms: int, beyond_ms: int) -> None:
    """Over one tick, seen late by up to two looks; of a board that idles before an iteration more would be wrong.

    Ticks of 10 ms are seen as such of 20, since the board is looked at every 20 ms. The last one may have been seen
    a tick before the last look, and the first one comes a tick after the first look.
    """
    board = virtual_board(tick_s=tick_ms * 1e-3)
    sampler = Sampler(board, "counter")
    watch(sampler, board, 1000, 2000)
    assert sampler.energy_j(1500 * MS, (2000 + beyond_ms) * MS) is None
    assert sampler.energy_j((1000 - beyond_ms) * MS, 1500 * MS) is None
    assert sampler.energy_j(1500 * MS, 2020 * MS) == pytest.approx(156.0, abs=300 * 0.045)


@pytest.mark.parametrize("last_ms", range(2000, 2040, 3))
def test_what_is_extrapolated_has_a_steady_slope(virtual_board: Board, last_ms: int) -> None:
    """Wherever readings end. From one to the next the counter makes one or two ticks of 15 ms: no slope to go by.

    40 ms beyond, at a slope that is wrong by 15 ms in 300 ms less a tick and a look, and 15 ms for the tick.
    """
    board = virtual_board(tick_s=0.015)
    sampler = Sampler(board, "counter")
    watch(sampler, board, 1000, last_ms)
    found_j = sampler.energy_j(1500 * MS, (last_ms + 40) * MS)
    bound_s = 0.015 + (0.04 + 0.0215) * 0.015 / (SLOPE_S - 0.015 - 0.0215)
    assert found_j == pytest.approx(300.0 * (last_ms - 1460) * 1e-3, abs=300.0 * bound_s)


def test_readings_where_the_driver_gives_blanks(virtual_board: Board) -> None:
    """A blank is Absent by the time it comes here; the readings around it still count."""
    board = virtual_board()
    sampler = Sampler(board, "counter")
    watch(sampler, board, 0, 500)
    board.counter = False
    watch(sampler, board, 501, 800)
    board.counter = True
    watch(sampler, board, 801, 1500)
    assert sampler.energy_j(200 * MS, 1200 * MS) == pytest.approx(300.0, abs=7)


def test_the_board_is_looked_at_every_20_ms(virtual_board: Board) -> None:
    board = virtual_board()
    watch(Sampler(board, "counter"), board, 0, 1000)
    assert 45 <= board.looks <= 51


def test_a_board_that_is_lost_is_not_asked_more_often(virtual_board: Board) -> None:
    board = virtual_board()
    sampler = Sampler(board, "counter")
    board.lost = True
    failures = 0
    for at_ms in range(1000):
        try:
            sampler.look(at_ms * MS)
        except DeviceError:
            failures += 1
    assert failures == board.looks == 50


def test_clock_and_throttle_of_a_span(virtual_board: Board) -> None:
    board = virtual_board()
    sampler = Sampler(board, "counter")
    for at_ms, clock, reasons in (
        (0, 1410, Throttle(0)),
        (20, 900, Throttle(4)),
        (40, 905, Throttle(0)),
        (60, 910, Throttle(8)),
        (80, 1410, Throttle(32)),
    ):
        board.sm_clock_mhz, board.throttle = clock, reasons
        sampler.look(at_ms * MS)
    assert sampler.clock_mhz(20 * MS, 80 * MS) == 905
    assert sampler.throttle(20 * MS, 80 * MS) == 4 | 8
    assert sampler.clock_mhz(5 * MS, 19 * MS) is None, "nobody looked while it ran"
    assert sampler.throttle(40 * MS, 41 * MS) == 0


def test_readings_do_not_pile_up(virtual_board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MOST", 1000)
    board = virtual_board()
    sampler = Sampler(board, "counter")
    for at in range(1100):
        sampler.look(at * INTERVAL_NS)
    assert board.looks == len(sampler._samples) == 1000
    sampler.forget_before(1000 * INTERVAL_NS)
    assert len(sampler._samples) == 0
