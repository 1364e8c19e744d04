"""The file by which an operator slows a run down."""

import os
import threading
from pathlib import Path

import pytest

from energyopt.applier.helper.slowdown_file import slowdown_in, watch_file
from energyopt.applier.runtime.reports import Reports


@pytest.mark.parametrize(
    ("text", "value"), [("1.1", 1.1), ("1.1\n", 1.1), (" 2 ", 2.0), ("1", 1.0), ("1e0", 1.0)]
)
def test_a_number(tmp_path: Path, text: str, value: float) -> None:
    path, reports = tmp_path / "slowdown", Reports(0)
    path.write_text(text)
    assert slowdown_in(path, reports) == value
    assert reports.said == ()


@pytest.mark.parametrize("text", ["", "fast", "0.9", "-1", "nan", "inf", "101", "1.1 1.2", "1,1", "9" * 5000])
def test_nonsense_is_reported_once_and_counts_as_nothing(tmp_path: Path, text: str) -> None:
    path, reports = tmp_path / "slowdown", Reports(0)
    path.write_text(text)
    assert [slowdown_in(path, reports) for _ in range(3)] == [0.0] * 3
    (said,) = reports.said
    assert str(path) in said
    assert len(said) < len(str(path)) + 100


def test_no_file_is_no_wish(tmp_path: Path) -> None:
    reports = Reports(0)
    assert slowdown_in(tmp_path / "nothing" / "here", reports) == 0.0
    assert reports.said == ()


@pytest.mark.parametrize("kind", ["folder", "binary"])
def test_what_cannot_be_read_is_reported(tmp_path: Path, kind: str) -> None:
    path, reports = tmp_path / "slowdown", Reports(0)
    path.mkdir() if kind == "folder" else path.write_bytes(b"\xff\xfe")
    assert slowdown_in(path, reports) == 0.0
    assert reports.said[0].startswith(f"cannot read {path}")


def test_a_file_system_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """A pipe that nobody writes to does not open."""
    path = tmp_path / "slowdown"
    os.mkfifo(path)
    wished: list[float] = []
    came = threading.Event()

    def wish(value: float) -> None:
        wished.append(value)
        came.set()

    watch_file(path, wish, Reports(0))
    assert wished == []
    with path.open("w") as writer:
        writer.write("1.2")
    assert came.wait(60)
    assert wished == [1.2]
    path.unlink()
