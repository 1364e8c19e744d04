"""One rank's telemetry as lines of JSON, made and written by a thread of its own.

Neither their making nor a slow or full disk holds up a clock.
"""

import json
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_WAITING = 4096  # iterations that a slow disk may be behind, tens of MB at most
_LAST_WAIT_S = 5.0


class ShardWriter:
    """Appends lines to a file; says once if that does not work, and then drops them.

    failed: called with one line of text, from the writing thread.
    """

    def __init__(self, path: Path, header: dict[str, Any], failed: Callable[[str], None]) -> None:
        self._path = path
        self._failed = failed
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue(_WAITING)
        self._lost = 0
        self._thread = threading.Thread(target=self._run, args=(header,), daemon=True)
        self._thread.start()

    def write(self, value: dict[str, Any]) -> None:
        """Add one line, or drop it where the disk is too far behind; the value must not change from here on."""
        try:
            self._lines.put_nowait(value)
        except queue.Full:
            self._lost += 1
            if self._lost == 1:
                self._failed(f"telemetry: {self._path} is written too slowly; iterations are missing in it")

    def close(self) -> None:
        """Write what is left; a disk that hangs is not waited for."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=1.0)
        self._thread.join(_LAST_WAIT_S)

    def _run(self, header: dict[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _fresh(self._path).open("x", encoding="utf-8") as file:
                self._append(file, json.dumps(header, separators=(",", ":"), sort_keys=True) + "\n")
                while (value := self._lines.get()) is not None:
                    self._append(file, json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")
        except (OSError, ValueError) as error:  # ValueError: a number that JSON lacks
            reason = error.strerror if isinstance(error, OSError) else error
            self._failed(f"telemetry: cannot write {self._path}: {reason}; training goes on without it")
            while self._lines.get() is not None:
                pass

    @staticmethod
    def _append(file: IO[str], line: str) -> None:
        """A whole line at once, so that a killed run leaves whole lines but perhaps the last."""
        file.write(line)
        file.flush()


def _fresh(path: Path) -> Path:
    """The path itself, or with a number where an earlier part of the run (an elastic restart) has left one."""
    number, free = 0, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}.part{number}{path.suffix}")
    return free
