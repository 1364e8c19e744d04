"""Progress of long work: a bar on a terminal, a plain line per step elsewhere; all on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from energyopt.cli import output

if TYPE_CHECKING:
    from energyopt.planner.progress import Progress

_FIRST_GUESS = 0.02
"""A share of the whole below which the time left is not guessed."""

_QUIET_S = 10.0
"""Long work tells its steps no oftener than this where there is no terminal."""

_NO_WORK_S = 0.2
"""A step of long work that took less was there already, from a run that was stopped."""


@contextmanager
def reporting(*, time_left: bool = False) -> Iterator["Progress"]:
    """A progress function for the work inside the block.

    With `time_left`, for work of minutes to hours, it also says how long the rest will take.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _timed_lines() if time_left else _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    last = TimeRemainingColumn() if time_left else TimeElapsedColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), last)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def tell(step: str, share: float) -> None:
            bar.update(task, description=step, completed=share)

        yield tell


def _lines() -> "Progress":
    told: set[str] = set()

    def tell(step: str, share: float) -> None:
        if step not in told:
            told.add(step)
            output.say(f"{step} ({share:.0%} done)")

    return tell


def _timed_lines() -> "Progress":
    """A line now and then, with the time left as the work since its start, or since it was taken up, suggests."""
    pace = _Pace()
    told_s = float("-inf")

    def tell(step: str, share: float) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        left_s = pace.left_s(now_s, share)
        if now_s - told_s < _QUIET_S:
            return
        told_s = now_s
        left = "" if left_s is None else f", about {_duration(left_s)} left"
        output.say(f"{step} ({share:.0%} done{left})")

    return tell


class _Pace:
    """How fast work goes; preparations, at a share of 0, and steps that were there already do not count."""

    def __init__(self) -> None:
        self._start_s, self._start, self._before_s = 0.0, 0.0, float("-inf")

    def left_s(self, now_s: float, share: float) -> float | None:
        """Time that the rest takes, s; None while there is too little to tell from."""
        if share == 0 or now_s - self._before_s < _NO_WORK_S:
            self._start_s, self._start = now_s, share
        self._before_s = now_s
        done = share - self._start
        return (now_s - self._start_s) * (1 - share) / done if done > _FIRST_GUESS and share < 1 else None


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
