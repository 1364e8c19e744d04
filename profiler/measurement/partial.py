"""What a run has measured so far, kept beside its output, so that one that was stopped goes on where it was.

One JSON object per line: a header with the digest of everything that decides the measurement, then what was found,
as it was found. A last line that was cut short is dropped, and so are windows that were rejected: what was wrong
may have been put right. What comes before the first window is found again in a minute, so a record without one
that counts binds nobody: it goes when its run ends, and stands in no other run's way. One process at a time has
a record.
"""

import json
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from energyopt import __version__
from energyopt.applier.guard import forks
from energyopt.profiler.measurement.exclusive import take_file
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.files import compact_json

FORMAT = "energyopt-profile-partial"
SCHEMA_VERSION = 1
WINDOW = "window"

SYNC_EVERY_S = 5.0
"""What a power cut may cost; each window on the disk at once would take a disk's time between windows."""


def partial_path(output: Path) -> Path:
    """Where the unfinished part of an output is kept."""
    return output.with_name(f"{output.name}.partial")


class Partial:
    """An append-only record of a run.

    records: what an earlier run of the same digest has left, but for its rejected windows.
    rejected: how many those are.
    """

    def __init__(self, path: Path, digest: str, what: str, *, restart: bool = False) -> None:
        """Open or begin the record.

        Args:
            path: the file.
            digest: of everything that decides what is measured; a record of another digest is refused.
            what: the run in words, for that refusal.
            restart: throw away whatever is there.

        Raises:
            MeasurementError: the file belongs to another run, another process writes it, or it cannot be written.
        """
        self.path = path
        self.records: list[dict[str, Any]] = []
        self.rejected = 0
        self.has_windows = False
        self._synced_s = time.monotonic()
        header = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "digest": digest,
            "what": what,
        }
        try:
            self._lock = take_file(path)
            with ExitStack() as stack:
                stack.callback(forks.close, self._lock)
                if path.stat().st_size and not restart:
                    self._resume(header)
                else:
                    self._begin(header)
                self._file = path.open("a", encoding="utf-8")
                stack.pop_all()
        except OSError as error:
            raise MeasurementError(f"cannot write {path}: {error.strerror}") from error

    def _begin(self, header: dict[str, Any]) -> None:
        self.path.write_text(compact_json(header) + "\n", encoding="utf-8")

    def _resume(self, header: dict[str, Any]) -> None:
        found, length = _complete_lines(self.path)
        if not found or found[0].get("format") != FORMAT:
            raise MeasurementError(f"{self.path} is no record of this tool; move it away, or give another -o")
        counting = [one for one in found[1:] if not _is_rejected(one)]
        self.has_windows = any(one.get("kind") == WINDOW for one in counting)
        same = found[0].get("digest") == header["digest"]
        if self.has_windows and not same:
            raise MeasurementError(
                f"{self.path} holds an unfinished run of something else ({found[0].get('what')}); finish that one, "
                "give another -o, or add --restart to throw it away"
            )
        self.rejected = len(found) - 1 - len(counting) if same else 0
        if not same or (self.rejected and not self.has_windows):
            self._begin(header)  # where no window counted, the calibration need not either
            return
        self.records = counting
        os.truncate(self.path, length)

    def add(self, kind: str, value: dict[str, Any]) -> None:
        """Keep one thing that was found: a killed process loses nothing of it, a power cut some seconds' worth.

        Raises:
            MeasurementError: the disk is full, say.
        """
        try:
            record = {"kind": kind, "value": value}
            self._file.write(compact_json(record) + "\n")
            self._file.flush()
            self.has_windows = self.has_windows or (kind == WINDOW and not _is_rejected(record))
            if time.monotonic() - self._synced_s >= SYNC_EVERY_S:
                self._sync()
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
        if self._file.closed:
            return
        if not self.has_windows:
            self.discard()
            return
        with suppress(OSError):
            self._sync()
        self._close()

    def discard(self) -> None:
        """Remove the record: its output is complete, or nothing of it is worth keeping."""
        if self._file.closed:
            return
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self._close()

    def _sync(self) -> None:
        self._synced_s = time.monotonic()
        os.fsync(self._file.fileno())

    def _close(self) -> None:
        with suppress(OSError):  # of a full disk has been told
            self._file.close()
        forks.close(self._lock)


def _is_rejected(record: dict[str, Any]) -> bool:
    return record.get("kind") == WINDOW and record["value"].get("rejected") is not None


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
