"""What `energyopt doctor --restore` does with each kind of journal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import ClockKnob, FoundClocks
from energyopt.applier.devices.nvml import open_nvml
from energyopt.applier.guard.journal import journal_path, write_journal
from energyopt.applier.guard.restore import Outcome, Standing, give_back, look_at_all, restore_all
from energyopt.schemas.errors import ClockControlError, DeviceError

Make = Callable[..., Any]


@pytest.fixture
def leave(state: Path, make_journal: Make) -> Make:
    """Leave a journal behind."""

    def write(uuid: str = "GPU-1", **changes: Any) -> Path:
        state.mkdir(exist_ok=True)
        path = journal_path(state, uuid)
        write_journal(path, make_journal(uuid, **changes))
        return path

    return write


class _Closing:
    """A toy board that can be closed, as those can that are opened for a restore."""

    def __init__(self, board: Any) -> None:
        self.board = board

    def __getattr__(self, name: str) -> Any:
        return getattr(self.board, name)

    def close(self) -> None:
        self.board.done.append("close")


def _one(outcomes: tuple[Outcome, ...]) -> Outcome:
    assert len(outcomes) == 1
    return outcomes[0]


@pytest.mark.usefixtures("state")
def test_nothing_was_left() -> None:
    assert look_at_all() == restore_all() == ()


def test_a_stale_journal_is_acted_on_and_removed(leave: Make, toy: Any) -> None:
    path, board = leave(found=FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(600, 900))), toy("GPU-1")
    seen = _one(look_at_all())
    assert seen.standing is Standing.STALE
    assert "process 4194305 (energyopt profile) since 2025" in seen.detail
    done = _one(restore_all(open_device=lambda _: _Closing(board)))
    assert done.standing is Standing.RESTORED
    assert (board.locked, board.done) == ((600, 900), ["restore", "close"])
    assert not path.exists()


def test_one_board_fails_and_the_others_are_given_back(leave: Make, toy: Any) -> None:
    boards = {name: toy(name, refuses=name == "GPU-2") for name in ("GPU-1", "GPU-2", "GPU-3")}
    paths = {name: leave(name) for name in boards}
    paths["GPU-4"] = leave("GPU-4")

    def open_device(uuid: str) -> Any:
        if uuid not in boards:
            raise DeviceError(f"{uuid} is not here")
        return _Closing(boards[uuid])

    standings = [one.standing for one in restore_all(open_device=open_device)]
    assert standings == [Standing.RESTORED, Standing.FAILED, Standing.RESTORED, Standing.FAILED]
    assert [path.exists() for path in paths.values()] == [False, True, False, True]


def test_only_the_board_that_was_named(leave: Make, toy: Any) -> None:
    other, _ = leave("GPU-1"), leave("GPU-2")
    assert _one(restore_all("GPU-2", open_device=lambda uuid: _Closing(toy(uuid)))).uuid == "GPU-2"
    assert other.exists()


def test_boards_in_use_are_left_alone(make_boards: Make, hold_in_child: Make, state: Path) -> None:
    fake = make_boards(1)
    child, _ = hold_in_child(fake)
    for outcome in (_one(look_at_all()), _one(restore_all())):
        assert outcome.standing is Standing.IN_USE
        assert f"held by process {child.pid} " in outcome.detail
    assert fake.boards[0].lock_mhz == (1200, 1200)
    assert list(state.glob("*.json"))


def test_journals_of_another_host_are_left_alone_and_named(leave: Make) -> None:
    path = leave(host="node17", boot_id="another")
    outcome = _one(restore_all())
    assert (outcome.standing, path.exists()) == (Standing.OTHER_HOST, True)
    assert "node17" in outcome.detail


def test_a_restart_has_undone_the_clocks(leave: Make, toy: Any) -> None:
    """Writing what was found before would undo what the site has set since."""
    path, board = leave(boot_id="another"), toy("GPU-1")
    outcome = _one(restore_all(open_device=lambda _: _Closing(board)))
    assert (outcome.standing, path.exists()) == (Standing.RESTARTED, False)
    assert board.done == ["close"]


def test_machines_of_one_name_that_share_a_home_leave_each_other_alone(leave: Make) -> None:
    """A board that is not here may well be clocked over there."""
    path = leave(boot_id="another")

    def open_device(uuid: str) -> Any:
        raise DeviceError(f"{uuid} is not here")

    outcome = _one(restore_all(open_device=open_device))
    assert (outcome.standing, path.exists()) == (Standing.FAILED, True)
    assert f"delete {path}" in outcome.detail


def test_a_damaged_journal_is_named_and_kept(leave: Make) -> None:
    path = leave()
    path.write_text("{")
    outcome = _one(restore_all())
    assert (outcome.standing, path.exists()) == (Standing.DAMAGED, True)
    assert str(path) in outcome.detail


def test_giving_back_is_checked_by_reading(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    board = toy()
    board.lock_sm_clock(1200)
    monkeypatch.setattr(toy, "restore_clocks", lambda *_: None)  # it says yes and does nothing
    with pytest.raises(ClockControlError, match=r"given back as .* but read as .*1200"):
        give_back(board, FoundClocks(knob=ClockKnob.LOCKED_CLOCKS))


def test_a_lock_of_the_sites_is_put_back_though_nvml_cannot_read_it(make_boards: Make) -> None:
    fake = make_boards(1)
    device = open_nvml(fake.boards[0].uuid)
    device.lock_sm_clock(1200)
    give_back(device, FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(600, 900)))
    assert fake.boards[0].lock_mhz == (600, 900)
