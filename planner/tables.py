"""Tables as data, and their plain form: what a person sees, before any output format has its say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows of text that is ready to print; the first column holds names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plain(table: Table) -> str:
    """The table with its columns aligned, as wide as it has to be; no line ends in blanks."""
    lines = (table.columns, *table.rows)
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.columns))]
    return "\n".join([table.title, *(_line(line, widths) for line in lines)])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *others = (
        cell.rjust(width) if index else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((first, *others)).rstrip()
