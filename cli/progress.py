"""Progress of long work: a bar on a terminal, a plain line per step elsewhere; all on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from energyopt.cli import output

if TYPE_CHECKING:
    from energyopt.planner.progress import Progress


@contextmanager
def reporting() -> Iterator["Progress"]:
    """A progress function for the work inside the block."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
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
