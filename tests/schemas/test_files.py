import errno
import json
import os
import stat
from pathlib import Path

import pytest

from energyopt.schemas.errors import EnergyoptError, FileFormatError
from energyopt.schemas.files import (
    canonical_json,
    compact_json,
    read_bytes,
    read_json,
    read_text,
    reading_once,
    write_atomically,
    write_bytes,
)
from energyopt.schemas.nodes import Node, check_header

ROOT = Node("a.json", "$", {"n": 3, "f": 1.5, "t": "x", "l": [1, 2], "o": {"k": None}, "b": True})


def disk_full(temporary: Path) -> None:
    temporary.write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


def defect(temporary: Path) -> None:
    temporary.write_bytes(b"half")
    raise KeyError("midway")


def interrupted(temporary: Path) -> None:
    temporary.write_bytes(b"half")
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("writer", "error"),
    [(disk_full, EnergyoptError), (defect, KeyError), (interrupted, KeyboardInterrupt)],
)
@pytest.mark.parametrize("before", [b"earlier", None])
def test_a_failed_write_leaves_no_trace(
    tmp_path: Path, writer: object, error: type[BaseException], before: bytes | None
) -> None:
    path = tmp_path / "plan.json"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(error):
        write_atomically(path, writer)  # type: ignore[arg-type]
    assert (path.read_bytes() if path.exists() else None) == before
    assert list(tmp_path.iterdir()) == ([path] if before is not None else [])


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(EnergyoptError) as caught:
        write_atomically(path, disk_full)
    assert str(caught.value) == f"cannot write {path}: No space left on device"


def test_writing_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnergyoptError, match=r"cannot write .*absent/a.json: No such file or directory"):
        write_bytes(tmp_path / "absent" / "a.json", b"x")


def test_a_folder_or_device_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(EnergyoptError, match="not a regular file"):
            write_bytes(path, b"x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    for content in (b"first", b"second"):
        write_bytes(link, content)
        assert link.is_symlink()
        assert real.read_bytes() == content
    assert list((tmp_path / "store").iterdir()) == [real]


def test_a_loop_of_links(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(EnergyoptError, match="cannot write"):
        write_bytes(loop, b"x")


def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    mask = os.umask(0o027)
    try:
        write_bytes(path, b"new")
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        write_bytes(path, b"again")
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(mask)


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + '{"µ": 1}'.encode())
    assert read_text(path) == '{"µ": 1}'
    assert read_json(path) == {"µ": 1}
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FileFormatError, match="not UTF-8"):
        read_text(path)
    with pytest.raises(FileFormatError, match=r"cannot read .*: Is a directory"):
        read_bytes(tmp_path)
    with pytest.raises(FileFormatError, match=r"cannot read .*: No such file"):
        read_bytes(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": NaN}', "NaN is not a number that JSON allows"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' stands twice"),
        ('{"a": 1', r"not JSON, or cut short: .*\(line 1, column 8\)"),
        ("", "not JSON, or cut short"),
        ("[" * 100_000, "a.json"),
        ("1" * 5000, "a.json"),
    ],
)
def test_json_that_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read_json(path)
    assert "a.json" in str(caught.value)


def test_canonical_json() -> None:
    assert canonical_json({"b": [1, 0.1], "a": "é"}) == '{\n "a": "é",\n "b": [\n  1,\n  0.1\n ]\n}\n'
    assert compact_json({"b": [1, 0.1], "a": "é"}) == '{"a":"é","b":[1,0.1]}'
    for form in (canonical_json, compact_json):
        with pytest.raises(ValueError, match="JSON"):
            form({"a": float("nan")})


def test_nodes_give_typed_values() -> None:
    assert ROOT.field("n").integer(minimum=3) == 3
    assert ROOT.field("n").number() == 3.0
    assert ROOT.field("t").text() == "x"
    assert [(node.path, node.value) for node in ROOT.field("l").items()] == [("$.l[0]", 1), ("$.l[1]", 2)]
    assert ROOT.field("o").optional("k") is None
    assert ROOT.optional("absent") is None
    ROOT.field("o").only("k", "other")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: ROOT.field("o").field("x"), "a.json: missing field @ $.o.x"),
        (lambda: ROOT.field("t").field("x"), "a.json: expected an object @ $.t"),
        (lambda: ROOT.field("l").optional("x"), "a.json: expected an object @ $.l"),
        (lambda: ROOT.field("l").only("x"), "a.json: expected an object @ $.l"),
        (lambda: ROOT.field("o").only("x", "y"), "a.json: unknown field 'k'; known are x, y @ $.o"),
        (lambda: list(ROOT.field("o").items()), "a.json: expected an array @ $.o"),
        (lambda: ROOT.field("n").text(), "a.json: expected text, found 3 @ $.n"),
        (lambda: ROOT.field("f").integer(), "a.json: expected an integer, found 1.5 @ $.f"),
        (lambda: ROOT.field("b").integer(), "a.json: expected an integer, found True @ $.b"),
        (lambda: ROOT.field("n").integer(minimum=4), "a.json: expected at least 4, found 3 @ $.n"),
        (lambda: ROOT.field("b").number(), "a.json: expected a number, found True @ $.b"),
        (lambda: ROOT.field("f").number(minimum=2), "a.json: expected at least 2, found 1.5 @ $.f"),
        (lambda: Node("a.json", "$.x", float("inf")).number(), "a.json: expected a finite number @ $.x"),
        (lambda: Node("a.json", "$.x", 10**400).number(), "a.json: expected a finite number @ $.x"),
        (
            lambda: Node("a.json", "$.x", "y" * 99).integer(),
            f"a.json: expected an integer, found '{'y' * 36}... @ $.x",
        ),
    ],
)
def test_nodes_name_the_place(wrong: object, complaint: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        wrong()  # type: ignore[operator]
    assert str(caught.value) == complaint


def test_header() -> None:
    assert check_header(Node("a", "$", {"format": "x", "schema_version": 1}), "x", 2) == 1
    for header, complaint in (
        ({"schema_version": 1}, r"missing field @ \$.format"),
        ({"format": "y", "schema_version": 1}, "format 'y', not 'x'"),
        ({"format": "x", "schema_version": 3}, "schema version 3, this tool reads up to 2; upgrade"),
        ({"format": "x", "schema_version": 0}, r"expected at least 1, found 0 @ \$.schema_version"),
        ({"format": "x", "schema_version": "1"}, "expected an integer"),
    ):
        with pytest.raises(FileFormatError, match=complaint):
            check_header(Node("a", "$", json.loads(json.dumps(header))), "x", 2)


def test_a_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    pipe = Path(f"/dev/fd/{reading}")
    with reading_once():
        assert [read_bytes(pipe), read_bytes(pipe)] == [b"content", b"content"]
    assert read_bytes(pipe) == b""
    os.close(reading)
