"""Streams as shells hand them over: pipes as inputs, and outputs that are closed, full or unable to show a name."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.cli.main import main
from energyopt.schemas.frontier import Frontier, write_frontier
from energyopt.schemas.plan import Plan, Prediction, read_plan, write_plan

Done = subprocess.CompletedProcess[str]
ENERGYOPT = f"{sys.executable} -m energyopt.cli"


@pytest.fixture
def files(tmp_path: Path, small_frontier: Frontier, small_plan: Plan) -> Path:
    write_frontier(tmp_path / "f.parquet", small_frontier)
    write_plan(tmp_path / "a.json", small_plan)
    worse = Prediction(iteration_time_s=9.5, energy_j=4000.0, lower_bound_j=None, gap=None)
    write_plan(tmp_path / "worse.json", replace(small_plan, predicted=worse))
    return tmp_path


def shell(command: str, folder: Path, **environment: str) -> Done:
    """Run a line of bash in a folder; `energyopt` in it is this checkout's."""
    script = f'energyopt() {{ {ENERGYOPT} "$@"; }}\n{command}'
    words = ["bash", "-o", "pipefail", "-c", script]
    environ = os.environ | environment
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def closed(words: Sequence[object], stream: str) -> tuple[int, str]:
    """Run a command whose stdout or stderr is a pipe that nobody reads; its exit code and the other stream."""
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writing}
    command = [*ENERGYOPT.split(), *(str(word) for word in words)]
    process = subprocess.Popen(command, text=True, **streams)  # type: ignore[call-overload]
    os.close(writing)
    out, err = process.communicate(timeout=60)
    return process.returncode, out or err or ""


def test_the_exit_after_reading_parquet_is_clean(files: Path) -> None:
    """Threads of Arrow that held a file of Python's aborted some exits."""
    command = [*ENERGYOPT.split(), "show", str(files / "f.parquet")]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: subprocess.run(command, capture_output=True, check=False), range(24)))
    assert {done.returncode for done in runs} == {0}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("energyopt diff <(cat a.json) <(cat a.json)", 0),
        ("energyopt diff <(cat a.json) <(cat worse.json)", 1),
        ("energyopt diff <(cat f.parquet) f.parquet", 0),
        ("cat f.parquet | energyopt show /dev/stdin", 0),
        ("cat a.json | energyopt show /dev/stdin", 0),
        ("energyopt apply -o z.py --format zeus <(cat f.parquet) && cat z.py | energyopt show /dev/stdin", 0),
    ],
)
def test_inputs_may_be_pipes(files: Path, command: str, code: int) -> None:
    done = shell(command, files)
    assert done.returncode == code, done.stderr
    assert done.stdout


def test_nobody_reads_standard_output(files: Path) -> None:
    assert closed(["diff", files / "a.json", files / "a.json"], "stdout") == (0, "")
    assert closed(["diff", files / "a.json", files / "worse.json"], "stdout") == (1, "")
    assert closed(["--help"], "stdout") == (0, "")
    code, words = closed(["apply", files / "f.parquet", "-o", files / "new.json"], "stdout")
    assert (code, words) == (0, f"wrote {files / 'new.json'}\n")
    assert read_plan(files / "new.json").gpus == 2


def test_plan_writes_its_file_though_nobody_reads(profile_file: Path, tmp_path: Path) -> None:
    words = ["plan", profile_file, "--stages", 2, "--microbatches", 2, "-o"]
    for stream in ("stdout", "stderr"):
        code, _ = closed([*words, tmp_path / f"{stream}.parquet"], stream)
        assert code == 0
        assert (tmp_path / f"{stream}.parquet").exists()


@pytest.mark.parametrize("words", [["show", "none.json"], ["show", "--nonsense"]])
def test_nobody_reads_standard_error(words: list[str]) -> None:
    assert closed(words, "stderr") == (2, "")


@pytest.mark.parametrize("words", ["show f.parquet", "diff a.json worse.json", "plan --help"])
def test_a_full_disk_is_2_and_one_line(files: Path, words: str) -> None:
    done = shell(f"energyopt {words} > /dev/full", files)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("energyopt show f.parquet >&-", 0),
        ("energyopt diff a.json worse.json >&-", 1),
        ("energyopt --help >&-", 0),
        ("energyopt apply f.parquet -o new.json >&- 2>&-", 0),
        ("energyopt show none.json 2>&-", 2),
        ("energyopt show --nonsense 2>&-", 2),
        ("energyopt show none.json 2> /dev/full", 2),
        ("energyopt show none.json <&- >&- 2>&-", 2),
    ],
)
def test_closed_streams(files: Path, command: str, code: int) -> None:
    done = shell(command, files)
    assert done.returncode == code
    assert done.stdout == ""  # words never land where data belongs
    assert "Error" not in done.stderr and "defect" not in done.stderr


def test_the_words_of_a_closed_stderr_stay_out_of_files(files: Path) -> None:
    assert shell("energyopt apply f.parquet -o new.json 2>&-", files).returncode == 0
    assert read_plan(files / "new.json").gpus == 2


def test_names_that_the_encoding_cannot_show(files: Path, small_plan: Plan) -> None:
    write_plan(files / "\u00e9.json", replace(small_plan, device_name="GPU \u2713"))
    done = shell("energyopt show \u00e9.json; energyopt show \u00e9", files, PYTHONIOENCODING="ascii")
    assert r"GPU \u2713" in done.stdout
    assert done.returncode == 2 and r"cannot read \xe9" in done.stderr


def test_without_streams_commands_still_work(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under pythonw, or a service that has none."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["show", str(files / "f.parquet")]) == 0
    assert main(["show", str(files / "none")]) == 2
