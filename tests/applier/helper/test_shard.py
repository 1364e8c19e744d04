"""Telemetry that is written beside everything else."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.helper import shard
from energyopt.applier.helper.shard import ShardWriter

LIMIT_S = 60.0


class Said:
    """What a writer complained about, and when the first of it came."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.came = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.came.set()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_written_in_order(tmp_path: Path) -> None:
    said = Said()
    writer = ShardWriter(tmp_path / "new" / "rank0.jsonl", {"rank": 0}, said)
    for number in range(100):
        writer.write({"iteration": number})
    writer.close()
    assert lines(tmp_path / "new" / "rank0.jsonl") == [{"rank": 0}, *({"iteration": n} for n in range(100))]
    assert said.texts == []


def test_an_earlier_part_is_not_overwritten(tmp_path: Path) -> None:
    for part in range(3):
        writer = ShardWriter(tmp_path / "rank0.jsonl", {"part": part}, Said())
        writer.close()
    names = ("rank0.jsonl", "rank0.part1.jsonl", "rank0.part2.jsonl")
    assert [lines(tmp_path / name) for name in names] == [[{"part": part}] for part in range(3)]


@pytest.mark.parametrize("where", ["/proc/nothing/rank0.jsonl", "/dev/null/rank0.jsonl"])
def test_a_folder_that_cannot_be_written_is_said_once(where: str) -> None:
    said = Said()
    writer = ShardWriter(Path(where), {}, said)
    assert said.came.wait(LIMIT_S)
    for number in range(1000):
        writer.write({"iteration": number})
    writer.close()
    assert len([text for text in said.texts if "cannot write" in text]) == 1
    assert where in said.texts[0]
    assert "training goes on without it" in said.texts[0]


def test_a_full_disk_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full takes nothing; it is there already, so it is opened as a new file would be."""
    said, real = Said(), Path.open
    monkeypatch.setattr(Path, "open", lambda *_, **__: real(Path("/dev/full"), "w", encoding="utf-8"))
    writer = ShardWriter(tmp_path / "rank0.jsonl", {"rank": 0}, said)
    assert said.came.wait(LIMIT_S)
    writer.write({"iteration": 0})
    writer.close()
    assert said.texts == [
        f"telemetry: cannot write {tmp_path / 'rank0.jsonl'}: No space left on device; training goes on without it"
    ]


def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes nothing for as long as the test lasts: lines are dropped, and said to be, and the end comes."""
    monkeypatch.setattr(shard, "_LAST_WAIT_S", 0.2)
    said, go_on = Said(), threading.Event()

    def hang(_file: object, _line: str) -> None:
        go_on.wait(LIMIT_S)

    monkeypatch.setattr(ShardWriter, "_append", staticmethod(hang))
    writer = ShardWriter(tmp_path / "rank0.jsonl", {"rank": 0}, said)
    start = time.monotonic()
    for number in range(10_000):
        writer.write({"iteration": number})
    assert time.monotonic() - start < LIMIT_S / 4
    writer.close()
    assert time.monotonic() - start < LIMIT_S / 2
    (text,) = said.texts
    assert "written too slowly" in text
    go_on.set()


def test_numbers_that_json_lacks_are_refused(tmp_path: Path) -> None:
    said = Said()
    writer = ShardWriter(tmp_path / "rank0.jsonl", {}, said)
    writer.write({"energy_j": float("nan")})
    writer.close()
    assert "JSON" in said.texts[0]
    assert lines(tmp_path / "rank0.jsonl") == [{}]


def test_lines_are_made_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of many operations takes a while, in which a clock may be due."""
    made_by, real = set(), json.dumps

    def dumps(*arguments: Any, **options: Any) -> str:
        made_by.add(threading.get_ident())
        return real(*arguments, **options)

    monkeypatch.setattr(json, "dumps", dumps)
    writer = ShardWriter(tmp_path / "rank0.jsonl", {}, Said())
    writer.write({"iteration": 0})
    writer.close()
    assert made_by
    assert threading.get_ident() not in made_by
