from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.profiler.doctor.counter import watch_counter
from energyopt.profiler.doctor.records import CounterHealth


def _watch(board: Any) -> CounterHealth:
    found = watch_counter(board, board.now_s, board.sleep)
    assert isinstance(found, CounterHealth)
    return found


@pytest.mark.parametrize("tick_s", [0.02, 0.1])
def test_tick_and_powers_are_found(steady_board: Any, tick_s: float) -> None:
    """The looks are 2 ms apart, so a tick is found to within that, and its share of the whole in the power."""
    found = _watch(steady_board(tick_s=tick_s))
    assert found.tick_s == pytest.approx(tick_s, abs=0.0021)
    assert found.ticks == pytest.approx(1.0 / tick_s, abs=1)
    assert found.counter_w == pytest.approx(200.0, rel=0.01)
    assert found.power_w == 200.0
    assert found.disagreement == pytest.approx(0, abs=0.01)


def test_a_counter_that_shows_too_much(steady_board: Any) -> None:
    assert _watch(steady_board(scale=1.3)).disagreement == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(("tick_s", "ticks"), [(100.0, 0), (0.7, 1)])
def test_too_few_ticks_to_judge(steady_board: Any, tick_s: float, ticks: int) -> None:
    found = _watch(steady_board(tick_s=tick_s))
    assert (found.ticks, found.tick_s, found.counter_w, found.disagreement) == (ticks, None, None, None)


def test_no_counter_is_told_with_its_reason(steady_board: Any) -> None:
    board = steady_board()
    board.energy_j = lambda: Absent("not supported")
    assert watch_counter(board, board.now_s, board.sleep) == Absent("not supported")


def test_no_power_leaves_the_tick(steady_board: Any) -> None:
    board = steady_board()
    board.power_w = lambda: Absent("not supported")
    found = _watch(board)
    assert found.tick_s is not None
    assert (found.power_w, found.disagreement) == (None, None)
