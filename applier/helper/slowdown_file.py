"""The file by which an operator slows a run down, looked at by a thread of its own: a file system may hang."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from energyopt.applier.runtime.reports import Reports

_LOOK_S = 1.0
_MOST = 100.0


def watch_file(path: Path, wish: Callable[[float], None], reports: Reports) -> None:
    """From now on call `wish` every second with what the file says; 0 where it is not there or says nothing."""

    def watch() -> None:
        while True:
            wish(slowdown_in(path, reports))
            time.sleep(_LOOK_S)

    threading.Thread(target=watch, daemon=True).start()


def slowdown_in(path: Path, reports: Reports) -> float:
    """The number in an operator's file; 0 where there is no file, or no such number in it, which is reported."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(100).strip()
    except FileNotFoundError:
        return 0.0
    except (OSError, UnicodeDecodeError) as error:
        reports.once("slowdown file", f"cannot read {path}: {error}")
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= _MOST:
        reports.once(f"slowdown {text[:20]}", f"{path} holds {text[:20]!r}; expected a number such as 1.1")
        return 0.0
    return value
