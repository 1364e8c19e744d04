"""CSV files with a header, read without guessing: every cell stays text until somebody asks for its type."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_text

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER_LIMIT = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The text of one cell, without surrounding blanks, and where it stands."""

    file: Path
    line: int
    column: str
    text: str

    def fail(self, problem: str) -> NoReturn:
        """Raise FileFormatError with file, line, column, value and problem."""
        shown = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        where = f"{self.file}: line {self.line}, column {self.column}"
        raise FileFormatError(f"{where}: {shown!r} is {problem}")

    def number(self) -> float:
        """The cell as a finite decimal number."""
        if not _NUMBER.fullmatch(self.text) or not math.isfinite(value := float(self.text)):
            self.fail("not a finite number" if self.text else "empty, expected a number")
        return value

    def positive(self) -> float:
        """The cell as a finite number above zero."""
        value = self.number()
        if value <= 0:
            self.fail("not above zero")
        return value

    def index(self) -> int:
        """The cell as a whole number from zero, such as `3` or `3.0`."""
        value = self.number()
        if not value.is_integer() or not 0 <= value < _INTEGER_LIMIT:
            self.fail("not a whole number from 0")
        return int(value)


def read_records(
    path: Path, required: Sequence[str], optional: Callable[[str], bool]
) -> list[dict[str, Cell]]:
    """Read a CSV file; each record maps the lower-case column names to cells.

    Args:
        path: UTF-8, with or without byte-order mark; lines end in LF or CRLF.
        required: columns that must be there.
        optional: tells whether a further column is known.

    Raises:
        FileFormatError: unreadable, empty, a column missing, unknown or repeated, or a line of wrong length.
    """
    lines = _lines(path)
    try:
        _, header = next(lines)
    except StopIteration:
        raise FileFormatError(f"{path}: empty; expected a header with {', '.join(required)}") from None
    names = [name.strip().lower() for name in header]
    _check_header(path, names, required, optional)
    records = [_record(path, line, names, cells) for line, cells in lines]
    if not records:
        raise FileFormatError(f"{path}: a header without any row after it")
    return records


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield reader.line_num, cells
    except csv.Error as error:
        raise FileFormatError(f"{path}: line {reader.line_num}: not CSV, or cut short: {error}") from error


def _check_header(
    path: Path, names: list[str], required: Sequence[str], optional: Callable[[str], bool]
) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        found = ", ".join(repr(name) for name in names)
        expected = ", ".join(missing)
        raise FileFormatError(f"{path}: missing column {expected}; the comma-separated header has {found}")
    for name in names:
        if name not in required and not optional(name):
            raise FileFormatError(f"{path}: unknown column {name!r}; remove it")
        if names.count(name) > 1:
            raise FileFormatError(f"{path}: column {name!r} stands twice in the header")


def _record(path: Path, line: int, names: list[str], cells: list[str]) -> dict[str, Cell]:
    if len(cells) != len(names):
        problem = "cut short" if len(cells) < len(names) else "too long"
        found = f"{len(cells)} cells for {len(names)} columns"
        raise FileFormatError(f"{path}: line {line} is {problem}: {found}")
    pairs = zip(names, cells, strict=True)
    return {name: Cell(file=path, line=line, column=name, text=text.strip()) for name, text in pairs}
