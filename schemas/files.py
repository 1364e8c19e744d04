"""Reading and writing files so that nothing of the user's is lost and equal content gives equal bytes."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import EnergyoptError, FileFormatError

_LONGEST_NAME = 220
"""Of what file systems allow (255 bytes) the rest is for what is put before and behind it while it is written."""

_HELD: ContextVar[dict[Path, bytes] | None] = ContextVar("held", default=None)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it over `path`.

    Until the rename `path` keeps its earlier content, however the writer ends. A symbolic link stays one.

    Raises:
        EnergyoptError: the folder does not exist or cannot be written, or `path` is a folder or a device.
    """
    _check_name(path)
    try:
        with suppress(FileNotFoundError):
            path.stat()  # a loop of links is an error here in every version of Python
        target = path.resolve()
        if target.exists() and not target.is_file():  # a rename over /dev/null would replace it for everybody
            raise EnergyoptError(f"cannot write {path}: it exists and is not a regular file")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise EnergyoptError(f"cannot write {path}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        _sync(temporary)
        temporary.chmod(_mode_for(target))
        temporary.replace(target)
    except OSError as error:
        raise EnergyoptError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Refuse a path that `write_atomically` could not write, before hours of work lead to it.

    Raises:
        EnergyoptError: the folder does not exist or cannot be written, or `path` is a folder or a device.
    """
    _check_name(path)
    folder = path.resolve().parent
    if path.exists() and not path.is_file():
        raise EnergyoptError(f"cannot write {path}: it exists and is not a regular file")
    if not folder.is_dir():
        raise EnergyoptError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise EnergyoptError(f"cannot write {path}: the folder is read-only for you")


def _check_name(path: Path) -> None:
    if path.name == "-":
        raise EnergyoptError("'-' is no file: give one, or read the data that is printed on standard output")
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise EnergyoptError(f"cannot write {path}: a file name may have {_LONGEST_NAME} bytes at most here")


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically."""
    write_atomically(path, lambda temporary: _fill(temporary, content))


@contextmanager
def reading_once() -> Iterator[None]:
    """Inside the block every file is read at most once, so that a pipe may be told apart and then parsed."""
    token = _HELD.set({})
    try:
        yield
    finally:
        _HELD.reset(token)


def read_bytes(path: Path) -> bytes:
    """Read a whole file, or give what was read of it before inside `reading_once`.

    Raises:
        FileFormatError: it does not exist, is a folder, or may not be read.
    """
    held = _HELD.get()
    if held is not None and path in held:
        return held[path]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from error
    if held is not None:
        held[path] = content
    return content


def read_text(path: Path) -> str:
    """Read a UTF-8 text file, with or without a byte-order mark.

    Raises:
        FileFormatError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> Any:
    """Read a JSON file, refusing NaN, infinity and repeated keys.

    Raises:
        FileFormatError: it cannot be read, or is not such JSON.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{path}: not JSON, or cut short: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: {error}") from error


def parse_json(text: str) -> Any:
    """The value of a JSON text, refusing NaN, infinity and repeated keys.

    Raises:
        ValueError: not such JSON (then mostly json.JSONDecodeError, which tells the place).
        RecursionError: nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, one value per line, no NaN or infinity and a newline at the end."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def compact_json(value: Any) -> str:
    """The same as `canonical_json` on a single line, for metadata inside other files."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _mode_for(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _sync(path: Path) -> None:
    """Have the content on the disk before the rename, or a power cut may leave an empty file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON allows")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found
