"""However a process that has clocked boards ends, they end as they were found; through real processes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.guard import forks
from energyopt.applier.guard.locks import try_lock

LIMIT_S = 120.0  # for a machine that is busy with other things

Eventually = Callable[[Callable[[], bool]], None]
HoldInChild = Callable[..., Any]

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL", "SIGABRT")
ENDINGS = {
    "left": "pass",
    "exception": "raise ValueError('training failed')",
    "exit": "sys.exit(3)",
    "os._exit": "import os; os._exit(3)",
}


@pytest.fixture(params=["locked_clocks", "application_clocks"])
def fake(request: pytest.FixtureRequest, make_boards: Callable[..., Any]) -> Any:
    """One board with either knob; the second has an application clock that the site had set."""
    if request.param == "locked_clocks":
        return make_boards(1)
    made = make_boards(1, "NO_LOCKED_CLOCKS")
    made.boards[0].application_mhz = 1305
    return made


def _clocked_down(fake: Any) -> bool:
    return fake.boards[0].lock_mhz == (1200, 1200) or fake.boards[0].application_mhz == 1200


def _as_found(fake: Any) -> bool:
    board = fake.boards[0]
    return board.lock_mhz is None and board.application_mhz in (1305, board.application_default_mhz)


def _lock_is_free(journal: Path) -> bool:
    lock = try_lock(journal)
    if lock is not None:
        forks.close(lock)
    return lock is not None


def _no_journal(state: Path) -> bool:
    return not list(state.glob("*.json"))


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal(
    fake: Any, state: Path, hold_in_child: HoldInChild, eventually: Eventually, name: str
) -> None:
    application_mhz = fake.boards[0].application_mhz
    child, _ = hold_in_child(fake)
    assert _clocked_down(fake)
    assert len(list(state.glob("*.json"))) == 1
    child.send_signal(getattr(signal, name))
    assert child.wait(LIMIT_S) != 0
    eventually(lambda: _as_found(fake) and _no_journal(state))
    assert fake.boards[0].application_mhz == application_mhz


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_other_end(
    fake: Any, state: Path, hold_in_child: HoldInChild, eventually: Eventually, ending: str
) -> None:
    child, _ = hold_in_child(fake, ENDINGS[ending])
    child.wait(LIMIT_S)
    eventually(lambda: _as_found(fake) and _no_journal(state))


def test_two_ctrl_c_in_a_row(
    make_boards: Callable[..., Any], state: Path, hold_in_child: HoldInChild, eventually: Eventually
) -> None:
    """The second comes while the driver is busy giving the clocks back."""
    fake = make_boards(2)
    child, _ = hold_in_child(fake)
    for board in fake.boards:
        board.set_delay_s = 0.3
    child.send_signal(signal.SIGINT)
    time.sleep(0.15)
    child.send_signal(signal.SIGINT)
    child.wait(LIMIT_S)
    eventually(lambda: all(board.lock_mhz is None for board in fake.boards) and _no_journal(state))


def test_the_next_run_waits_for_the_guard_of_the_one_before(
    make_boards: Callable[..., Any], hold_in_child: HoldInChild
) -> None:
    fake = make_boards(1)
    first, guard = hold_in_child(fake)
    fake.boards[0].set_delay_s = 0.5
    first.kill()
    first.wait(LIMIT_S)
    hold_in_child(fake, "sys.exit(len(clocks.recovered))")[0].wait(LIMIT_S)
    setters = [(call.call, call.pid) for call in fake.calls()]
    assert setters[1] == ("reset_locked_clocks", guard)
    assert len(setters) == 4, "set, given back by the guard, set and given back by the second run"
    assert fake.boards[0].lock_mhz is None


def test_a_signal_to_the_whole_group_leaves_the_guard_to_its_work(
    make_boards: Callable[..., Any], state: Path, hold_in_child: HoldInChild, eventually: Eventually
) -> None:
    """As a batch system does: everybody gets it, the guard first."""
    fake = make_boards(2)
    child, guard = hold_in_child(fake)
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard, one)
    child.terminate()
    child.wait(LIMIT_S)
    eventually(lambda: all(board.lock_mhz is None for board in fake.boards) and _no_journal(state))


@pytest.mark.parametrize("pidfd", [True, False])
@pytest.mark.parametrize("fork", ["os.fork()", "ctypes.CDLL(None).fork()"])
def test_a_worker_that_outlives_its_parent_does_not_keep_the_clocks(
    make_boards: Callable[..., Any],
    state: Path,
    hold_in_child: HoldInChild,
    eventually: Eventually,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fork: str,
    pidfd: bool,
) -> None:
    """The second fork is not Python's, so the worker keeps every descriptor open, as the guard's pipe."""
    if not pidfd:  # as on a kernel before 5.3
        (tmp_path / "sitecustomize.py").write_text("import os; del os.pidfd_open")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fake = make_boards(1)
    body = f"import ctypes, os; worker = {fork}; print(worker, flush=True) if worker else 0; time.sleep(600)"
    child, _ = hold_in_child(fake, body)
    worker = int(child.stdout.readline())
    try:
        child.kill()
        eventually(lambda: fake.boards[0].lock_mhz is None and _no_journal(state))
        os.kill(worker, 0)
        if fork == "os.fork()":
            eventually(lambda: _lock_is_free(state / f"{fake.boards[0].uuid}.json"))
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_worker_that_leaves_the_block_changes_nothing(
    make_boards: Callable[..., Any], state: Path, hold_in_child: HoldInChild
) -> None:
    fake = make_boards(1)
    then = (
        "import os; worker = os.fork(); sys.exit(0) if worker == 0 else os.waitpid(worker, 0); "
        "print(1, flush=True); time.sleep(600)"
    )
    child, _ = hold_in_child(fake, then)
    assert child.stdout.readline() == "1\n"
    assert fake.boards[0].lock_mhz == (1200, 1200)
    assert not _no_journal(state)


def test_a_guard_that_was_killed_is_replaced_at_the_next_set(
    make_boards: Callable[..., Any], state: Path, hold_in_child: HoldInChild, eventually: Eventually
) -> None:
    fake = make_boards(1)
    kill = "import os; os.kill(clocks.guard_pid, 9); os.waitid(os.P_PID, clocks.guard_pid, os.WEXITED | os.WNOWAIT)"
    then = "clocks.lock(900); print(clocks.guard_pid, flush=True); time.sleep(600)"
    child, guard = hold_in_child(fake, f"{kill}; {then}")
    again = int(child.stdout.readline())
    assert again != guard
    assert fake.boards[0].lock_mhz == (900, 900)
    child.kill()
    eventually(lambda: fake.boards[0].lock_mhz is None and _no_journal(state))


def test_what_is_left_when_guard_and_parent_are_killed_is_put_right_by_the_next_run(
    fake: Any, state: Path, hold_in_child: HoldInChild
) -> None:
    """What was found by the first run is the truth, not what the second finds."""
    application_mhz = fake.boards[0].application_mhz
    first, guard = hold_in_child(fake)
    os.kill(guard, signal.SIGKILL)
    first.kill()
    first.wait(LIMIT_S)
    time.sleep(0.2)
    assert _clocked_down(fake)
    assert not _no_journal(state)
    second, _ = hold_in_child(fake, "print(clocks.recovered[0].owner.pid, flush=True)")
    assert int(second.stdout.readline()) == first.pid
    assert second.wait(LIMIT_S) == 0
    assert _as_found(fake)
    assert fake.boards[0].application_mhz == application_mhz
    assert _no_journal(state)
