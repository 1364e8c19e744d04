"""`energyopt profile` on boards of the fake driver, stopped in every way and taken up again; real processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.measurement.partial import partial_path
from energyopt.schemas.profile import read_profile

LIMIT_S = 60.0  # for a machine that is busy with other things; what waits here takes seconds
LOOP = """
import time

def step():
    return [("forward", "f", lambda: time.sleep(0.002)), ("backward", "b", lambda: time.sleep(0.004))]
"""
QUICK = """
from energyopt.cli.main import run
from energyopt.profiler import site_lock
from energyopt.profiler.measurement import calibration, latency, resting

site_lock.LOOK_S, calibration.PILOT_S, resting.SHORTEST_S, latency.SWITCHES = 0.1, 0.4, 0.1, 2
run()
"""
"""The command with less before and after its sweep."""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a user's own workload."""
    (tmp_path / "own_loop.py").write_text(LOOP)
    return tmp_path


@pytest.fixture
def boards(make_fake_nvml: Callable[..., Any], own: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fake driver with six boards whose counters tick every 10 ms."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    fake = make_fake_nvml(6)
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", str(own / "state"))
    for board in fake.boards:
        board.tick_s = 0.01
    return fake


@pytest.fixture
def start(boards: Any, own: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the command on one of the boards; its output is called after the board's number."""
    started: list[subprocess.Popen[str]] = []

    def run(number: int, *words: str) -> "subprocess.Popen[str]":
        device = f"nvml:{boards.boards[number].uuid}"
        usual = (
            "own_loop:step --kernels-on cpu --clocks 1410,1200 --windows 5 --window-s 0.1 --warm-up-s 0.02"
        )
        command = [sys.executable, "-c", QUICK, "profile", *usual.split(), "--soak-s", "0"]
        command += ["--device", device, "-o", f"{number}.parquet", *words]
        child = subprocess.Popen(
            command, cwd=own, env=boards.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(child)
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


def _eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _windows(own: Path, number: int) -> int:
    path = partial_path(own / f"{number}.parquet")
    return path.read_text().count('"kind":"window"') if path.exists() else 0


def _in_the_sweep(own: Path, number: int, child: "subprocess.Popen[str]") -> bool:
    assert child.poll() is None, child.communicate()[1]
    return _windows(own, number) >= 3


def _as_found(board: Any) -> bool:
    return board.lock_mhz is None and board.application_mhz == board.application_default_mhz


def test_however_it_ends_the_clocks_are_given_back(
    boards: Any, own: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL")
    children = {number: start(number) for number in range(len(names))}
    for number, child in children.items():
        _eventually(lambda n=number, c=child: _in_the_sweep(own, n, c), f"{names[number]}: no window")
        child.send_signal(getattr(signal, names[number]))
    codes, words = {}, {}
    for number, child in children.items():
        words[names[number]] = child.communicate(timeout=LIMIT_S)[1]
        codes[names[number]] = child.returncode
        _eventually(lambda n=number: _as_found(boards.boards[n]), f"{names[number]}: still clocked")
        assert _windows(own, number) >= 3
        assert not (own / f"{number}.parquet").exists()
    clocked = {call.uuid for call in boards.calls() if call.arguments[1] == 1200 and not call.code}
    assert clocked == {board.uuid for board in boards.boards[: len(names)]}
    deadly = {name: -getattr(signal, name) for name in names[3:]}
    assert codes == dict.fromkeys(names[:3], 130) | deadly
    for name in names[:3]:
        assert words[name].splitlines()[-2:] == [
            f"what was measured is kept in {names.index(name)}.parquet.partial: the same command goes on "
            "from there",
            "energyopt: interrupted; earlier output files are as they were",
        ]


def test_two_ctrl_c_and_the_same_command_again(
    boards: Any, own: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    board = boards.boards[5]
    first = start(5)
    _eventually(lambda: _in_the_sweep(own, 5, first), "no window")
    board.set_delay_s = 0.3
    first.send_signal(signal.SIGINT)
    time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    err = first.communicate(timeout=LIMIT_S)[1]
    assert first.returncode == 130, err
    _eventually(lambda: _as_found(board), "still clocked")
    board.set_delay_s = 0.0
    kept = _windows(own, 5)
    other = start(5, "--seed", "7")
    assert "5.parquet.partial holds an unfinished run" in other.communicate(timeout=LIMIT_S)[1]
    assert other.returncode == 2
    again = start(5)
    out, err = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, err
    assert err.startswith(f"going on with 5.parquet.partial: {kept} windows are there already\n")
    assert "A100-SXM4-80GB (kernels on the CPU) (nvml)" in out
    assert not partial_path(own / "5.parquet").exists()
    assert {row.samples for row in read_profile(own / "5.parquet").rows} == {5}
    assert _as_found(board)
