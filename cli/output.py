"""Where words and data go: data to standard output, words to standard error, user text never read as markup."""

import io
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from energyopt.schemas.errors import EnergyoptError


def prepare_streams() -> None:
    """Make this process's streams safe: closed ones lead nowhere, and no character is beyond an encoding.

    A closed descriptor would be given to the next file that is opened, which then received the words.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the process's life
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard(stream: TextIO) -> None:
    """Lead what a stream still holds, and all that follows, nowhere, so that the exit is silent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def data(text: str) -> None:
    """Print data to standard output; a reader that has gone away is no error.

    Raises:
        EnergyoptError: it cannot be written, such as to a full disk.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        discard(sys.stdout)
        raise EnergyoptError(f"cannot write to standard output: {error.strerror}") from error


def say(text: str) -> None:
    """Print words to standard error; where nobody can read them, the exit code still tells."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    say(f"warning: {text}")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table to standard output, its first column left-aligned and the others right-aligned.

    On a terminal, columns that do not fit go into further tables below; nothing is ever cut or folded. Foreign text
    in the title and the cells stays on its line, and its control characters are shown, not sent.
    """
    from energyopt.planner.tables import Table, panels, plain
    from energyopt.planner.wording import one_line

    whole = Table(
        title=one_line(title),
        columns=tuple(columns),
        rows=tuple(tuple(map(one_line, row)) for row in rows),
    )
    if sys.stdout is None or not sys.stdout.isatty():
        data(plain(whole))
        return
    width = shutil.get_terminal_size().columns
    data("\n\n".join(plain(panel) for panel in panels(whole, width)))
