"""Where words and data go: data to standard output, words to standard error, user text never read as markup."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 10_000  # columns; a table that is piped is never cut


def data(text: str) -> None:
    """Print data to standard output."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say(text: str) -> None:
    """Print words to standard error."""
    print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print(f"warning: {text}", file=sys.stderr)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table to standard output; the first column is left-aligned, the others right-aligned."""
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", title_style="", box=None, pad_edge=False)
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="left" if index == 0 else "right", overflow="fold", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    print_table(drawn)


def print_table(drawn: "Table") -> None:
    """Print a rich table, as wide as it needs to be when standard output is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    console.print(drawn)
