"""The block itself, with toy boards and with the fake driver's; the guard process is real."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.nvml import open_nvml
from energyopt.applier.guard.hold import guarded_clocks
from energyopt.applier.guard.restore import Standing, look_at_all, restore_all
from energyopt.schemas.errors import ClockControlError, DeviceError

Make = Callable[..., Any]


def _sets(fake: Any) -> list[tuple[str, tuple[int, int]]]:
    return [(call.call, call.arguments) for call in fake.calls() if call.code == 0]


def test_a_board_is_set_and_given_back(make_boards: Make, state: Path) -> None:
    fake = make_boards()
    with guarded_clocks(open_nvml(fake.boards[0].uuid)) as clocks:
        assert not fake.calls(), "nothing is set before the first lock"
        clocks.lock(1200)
        assert fake.boards[0].lock_mhz == (1200, 1200)
        guard = clocks.guard_pid
        assert guard is not None
    assert fake.boards[0].lock_mhz is None
    assert not list(state.glob("*.json"))
    with pytest.raises(ProcessLookupError):
        os.kill(guard, 0)


def test_a_clock_that_stands_is_not_set_again(toy: Any) -> None:
    board = toy()
    with guarded_clocks(board) as clocks:
        for clock in (1200, 1200, 900, 900, 1200):
            clocks.lock(clock)
    assert board.done == [1200, 900, 1200, "restore"]


def test_a_board_that_was_never_set_is_left_alone(make_boards: Make) -> None:
    fake = make_boards()
    with guarded_clocks(open_nvml(fake.boards[0].uuid)):
        pass
    assert not fake.calls()


def test_the_journal_is_there_before_the_first_set(
    make_boards: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = make_boards()
    device = open_nvml(fake.boards[0].uuid)
    before: list[list[Path]] = []
    real = type(device).lock_sm_clock

    def watch(self: Any, clock: int) -> None:
        before.append(list(state.glob("*.json")))
        real(self, clock)

    monkeypatch.setattr(type(device), "lock_sm_clock", watch)
    with guarded_clocks(device) as clocks:
        assert not list(state.glob("*.json")), "nothing to give back yet"
        clocks.lock(1200)
    assert before == [[state / f"{fake.boards[0].uuid}.json"]]


def test_simulated_boards_need_neither_journal_nor_guard(toy: Any, state: Path) -> None:
    board = toy()
    board.locked = (600, 900)
    with pytest.raises(ValueError, match="mine"), guarded_clocks(board) as clocks:
        assert clocks.guard_pid is None
        clocks.lock(1200)
        raise ValueError("mine")
    assert board.locked == (600, 900)
    assert not state.exists()


def test_one_of_eight_boards_refuses_and_all_are_rolled_back(
    make_boards: Make, fake_boards: Any, state: Path
) -> None:
    fake = make_boards(8)
    fake.boards[5].fault("set_locked", code=fake_boards.NO_PERMISSION)
    devices = [open_nvml(board.uuid) for board in fake.boards]
    with pytest.raises(ClockControlError, match=fake.boards[5].uuid), guarded_clocks(*devices) as clocks:
        clocks.lock(1200)
    assert all(board.lock_mhz is None for board in fake.boards)
    assert [call for call, _ in _sets(fake)].count("set_locked_clocks") == 5
    assert not list(state.glob("*.json"))


def test_a_later_refusal_puts_the_others_back_to_the_clock_before(toy: Any) -> None:
    first, second = toy("SIM-1"), toy("SIM-2")
    with guarded_clocks(first, second) as clocks:
        clocks.lock(1200)
        second.refuses = True
        with pytest.raises(ClockControlError, match="SIM-2"):
            clocks.lock(900)
        assert first.locked == (1200, 1200)
        second.refuses = False
        clocks.lock(900)
        assert (first.locked, second.locked) == ((900, 900), (900, 900))
    assert (first.locked, second.locked) == (None, None)


def test_a_board_that_is_known_to_refuse_is_refused_before_anything_is_touched(toy: Any, state: Path) -> None:
    first, second = toy("SIM-1"), toy("SIM-2", unable="needs root")
    with (
        pytest.raises(ClockControlError, match=r"SIM-2\): needs root; ask root"),
        guarded_clocks(first, second),
    ):
        pass
    assert not first.done
    assert not state.exists()


@pytest.mark.parametrize("where", ["file/state", "file"])
def test_nothing_is_set_where_no_journal_can_be_kept(
    make_boards: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    fake = make_boards()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(tmp_path / where))
    with (
        pytest.raises(ClockControlError, match="no clock was changed; set ENERGYOPT_STATE_DIR"),
        guarded_clocks(open_nvml(fake.boards[0].uuid)) as clocks,
    ):
        clocks.lock(1200)
    assert not fake.calls()


def test_nothing_is_set_where_no_guard_can_start(make_boards: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = make_boards()
    device = open_nvml(fake.boards[0].uuid)
    for program, reason in (("/bin/false", "said nothing"), ("/no/such/program", "No such file")):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program)
            with (
                pytest.raises(ClockControlError, match=f"could not start: .*{reason}.*no clock was changed"),
                guarded_clocks(device),
            ):
                pass
    with guarded_clocks(device) as clocks:  # the lock has been let go
        clocks.lock(1200)


def test_a_guard_that_cannot_open_the_board_says_why(
    make_boards: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = make_boards()
    device = open_nvml(fake.boards[0].uuid)
    monkeypatch.setenv("FAKE_NVML_STATE", str(tmp_path / "none"))
    with pytest.raises(ClockControlError, match=r"guard process .* could not start"), guarded_clocks(device):
        pass
    assert not fake.calls()


def test_a_second_ctrl_c_while_clocks_are_given_back_waits(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [toy("SIM-1"), toy("SIM-2")]
    real = toy.restore_clocks

    def interrupted(self: Any, found: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        real(self, found)

    monkeypatch.setattr(toy, "restore_clocks", interrupted)
    with pytest.raises(KeyboardInterrupt), guarded_clocks(*boards) as clocks:
        clocks.lock(1200)
        signal.raise_signal(signal.SIGINT)
    assert [board.locked for board in boards] == [None, None]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_board_that_cannot_be_given_back_is_named_and_stays_journaled(
    make_boards: Make, fake_boards: Any
) -> None:
    fake = make_boards(2)
    device = [open_nvml(board.uuid) for board in fake.boards]
    with (
        pytest.raises(ClockControlError, match=f"not given back: .*{fake.boards[1].uuid}.*doctor --restore"),
        guarded_clocks(*device) as clocks,
    ):
        clocks.lock(1200)
        fake.boards[1].fault("reset_locked", code=fake_boards.NO_PERMISSION)
    assert [board.lock_mhz for board in fake.boards] == [None, (1200, 1200)]
    assert [one.standing for one in look_at_all()] == [Standing.STALE]
    fake.boards[1].heal()
    assert [one.standing for one in restore_all()] == [Standing.RESTORED]
    assert fake.boards[1].lock_mhz is None


def test_the_guard_gives_back_what_this_process_cannot(
    make_boards: Make, fake_boards: Any, state: Path
) -> None:
    fake = make_boards()
    with guarded_clocks(open_nvml(fake.boards[0].uuid)) as clocks:
        clocks.lock(1200)
        fake.boards[0].fault("reset_locked", code=fake_boards.UNKNOWN, calls=1)
    assert fake.boards[0].lock_mhz is None
    assert not list(state.glob("*.json"))


def test_a_refused_restore_of_a_simulated_board_is_an_error(toy: Any) -> None:
    board = toy()
    with pytest.raises(ClockControlError, match="SIM-toy"), guarded_clocks(board) as clocks:
        clocks.lock(1200)
        board.refuses = True


def test_clocks_are_set_inside_the_block_only(toy: Any) -> None:
    with guarded_clocks(toy()) as clocks:
        pass
    with pytest.raises(ClockControlError, match="inside the block"):
        clocks.lock(1200)


def test_the_same_board_twice_is_refused(toy: Any) -> None:
    board = toy()
    with pytest.raises(DeviceError, match="twice"), guarded_clocks(board, board):
        pass
