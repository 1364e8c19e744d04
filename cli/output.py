"""Where words and data go: data to standard output, words to standard error, user text never read as markup."""

import sys
from collections.abc import Sequence


def data(text: str) -> None:
    """Print data to standard output."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say(text: str) -> None:
    """Print words to standard error."""
    print(text, file=sys.stderr)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print(f"warning: {text}", file=sys.stderr)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table to standard output, its first column left-aligned and the others right-aligned.

    On a terminal, columns that do not fit are folded; anywhere else nothing is ever cut.
    """
    if not sys.stdout.isatty():
        from energyopt.planner.tables import Table, plain

        data(plain(Table(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows)))))
        return
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False)
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="right" if index else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    console.print(title)
    console.print(drawn)
