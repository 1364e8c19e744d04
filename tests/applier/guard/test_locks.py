import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.nvml import open_nvml
from energyopt.applier.guard import forks
from energyopt.applier.guard.hold import guarded_clocks
from energyopt.applier.guard.locks import lock_path, reserved, take_lock, try_lock
from energyopt.schemas.errors import DeviceError


def test_a_second_run_is_told_who_has_the_board(
    make_boards: Callable[..., Any], hold_in_child: Callable[..., Any]
) -> None:
    fake = make_boards(1)
    child, _ = hold_in_child(fake)
    uuid = fake.boards[0].uuid
    expected = rf"{uuid} is in use by process {child.pid} \(.*\) since 2.*; wait for it or stop it"
    with pytest.raises(DeviceError, match=expected), guarded_clocks(open_nvml(uuid)):
        pass
    assert fake.boards[0].lock_mhz == (1200, 1200)


def test_a_board_that_is_only_read_is_kept_too(make_boards: Callable[..., Any], state: Path) -> None:
    board = open_nvml(make_boards(1).boards[0].uuid)
    with reserved(board):
        for again in (reserved, guarded_clocks):
            with pytest.raises(DeviceError, match=f"in use by process {os.getpid()} "), again(board):
                pass
    with reserved(board):
        assert not list(state.glob("*.json")), "nothing is owed"


def test_a_simulated_board_is_nobody_elses(toy: Any, state: Path) -> None:
    with reserved(toy()), reserved(toy()):
        assert not state.exists()


def test_a_lock_that_something_left_behind_holds_is_waited_for_then_told(tmp_path: Path) -> None:
    """The owner has ended, and a child that it did not fork in Python has kept its descriptor."""
    journal = tmp_path / "GPU-1.json"
    code = (
        "import subprocess, sys, pathlib\n"
        "from energyopt.applier.guard.locks import take_lock\n"
        "lock = take_lock(pathlib.Path(sys.argv[1]), 'GPU-1')\n"
        "print(subprocess.Popen(['sleep', '60'], pass_fds=[lock], stdout=-3, stderr=-3).pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(journal)], capture_output=True, text=True, check=True, timeout=60
    )
    with pytest.raises(DeviceError, match="which has ended, and something that it started holds the lock"):
        take_lock(journal, "GPU-1", patience_s=0.1)
    os.kill(int(done.stdout), 9)
    forks.close(take_lock(journal, "GPU-1"))


def test_the_file_stays_and_can_be_locked_again(tmp_path: Path) -> None:
    journal = tmp_path / "GPU-1.json"
    held = take_lock(journal, "GPU-1")
    assert try_lock(journal) is None
    forks.close(held)
    assert lock_path(journal).exists()
    again = try_lock(journal)
    assert again is not None
    forks.close(again)


def test_a_board_whose_clocks_a_killed_run_left_set_is_not_read_as_it_is(
    make_boards: Callable[..., Any], state: Path
) -> None:
    """Its rows would be taken for those of the board as its users find it."""
    board = open_nvml(make_boards(1).boards[0].uuid)
    with reserved(board):
        pass  # makes the folder
    (state / f"{board.identity.uuid}.json").write_text("{}")
    with (
        pytest.raises(DeviceError, match=r"left the clocks of .* set; give them back first"),
        reserved(board),
    ):
        pass
