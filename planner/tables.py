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


def panels(table: Table, width: int) -> tuple[Table, ...]:
    """The table's columns in as many tables as a width needs, each with the first column; no cell is ever cut."""
    lines = (table.columns, *table.rows)
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.columns))]
    groups: list[list[int]] = [[]]
    for index in range(1, len(widths)):
        wide = widths[0] + sum(2 + widths[one] for one in (*groups[-1], index))
        if groups[-1] and wide > width:
            groups.append([])
        groups[-1].append(index)
    return tuple(_panel(table, [0, *group], number) for number, group in enumerate(groups))


def _panel(table: Table, indices: list[int], number: int) -> Table:
    return Table(
        title=f"{table.title} (continued)" if number else table.title,
        columns=tuple(table.columns[index] for index in indices),
        rows=tuple(tuple(row[index] for index in indices) for row in table.rows),
    )


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *others = (
        cell.rjust(width) if index else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((first, *others)).rstrip()
