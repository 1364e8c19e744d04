"""What a run has measured so far, kept beside its output, so that one that was stopped goes on where it was.

One JSON object per line: a header with the digest of everything that decides the measurement, then what was found,
as it was found. A last line that was cut short is dropped. What comes before the first window is found again in
seconds, so a record without one binds nobody: it goes when its run ends, and stands in no other run's way.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from energyopt import __version__
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.files import compact_json

FORMAT = "energyopt-profile-partial"
SCHEMA_VERSION = 1
WINDOW = "window"


def partial_path(output: Path) -> Path:
    """Where the unfinished part of an output is kept."""
    return output.with_name(f"{output.name}.partial")


class Partial:
    """An append-only record of a run; `records` holds what an earlier run of the same digest has left."""

    def __init__(self, path: Path, digest: str, what: str) -> None:
        """Open or begin the record.

        Args:
            path: the file.
            digest: of everything that decides what is measured; a record of another digest is refused.
            what: the run in words, for that refusal.

        Raises:
            MeasurementError: the file belongs to another run, or cannot be written.
        """
        self.path = path
        self.records: list[dict[str, Any]] = []
        self.has_windows = False
        header = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "digest": digest,
            "what": what,
        }
        try:
            if path.exists() and path.stat().st_size:
                self._resume(header)
            else:
                self._begin(header)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise MeasurementError(f"cannot write {path}: {error.strerror}") from error

    def _begin(self, header: dict[str, Any]) -> None:
        self.path.write_text(compact_json(header) + "\n", encoding="utf-8")

    def _resume(self, header: dict[str, Any]) -> None:
        found, length = _complete_lines(self.path)
        if not found or found[0].get("format") != FORMAT:
            raise MeasurementError(f"{self.path} is no record of this tool; move it away, or give another -o")
        if found[0].get("digest") != header["digest"]:
            if not _worth_keeping(found):
                self._begin(header)
                return
            raise MeasurementError(
                f"{self.path} holds an unfinished run of something else ({found[0].get('what')}); finish that one, "
                "give another -o, or add --restart to throw it away"
            )
        self.records = found[1:]
        self.has_windows = _worth_keeping(found)
        os.truncate(self.path, length)

    def add(self, kind: str, value: dict[str, Any]) -> None:
        """Keep one thing that was found; it is on its way to the disk when this returns.

        Raises:
            MeasurementError: the disk is full, say.
        """
        try:
            self._file.write(compact_json({"kind": kind, "value": value}) + "\n")
            self._file.flush()
            self.has_windows = self.has_windows or kind == WINDOW
        except OSError as error:
            raise MeasurementError(
                f"cannot write {self.path}: {error.strerror}; what was measured before is kept there"
            ) from error

    def last(self, kind: str) -> dict[str, Any] | None:
        """What was kept last under a kind."""
        return next((one["value"] for one in reversed(self.records) if one.get("kind") == kind), None)

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Everything that was kept under a kind."""
        return [one["value"] for one in self.records if one.get("kind") == kind]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
            if not self.has_windows:
                self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the record: its output is complete."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def _worth_keeping(records: list[dict[str, Any]]) -> bool:
    return any(one.get("kind") == WINDOW for one in records)


def _complete_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The objects of all whole lines, and how many bytes they take."""
    found, length = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            value = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            value = None
        if not isinstance(value, dict):
            break
        found.append(value)
        length += len(line)
    return found, length
