"""Sparse matrices by rows, as HiGHS takes them, without scipy: loading that takes a third of a second."""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints

_CANCELLED = 1e-12  # what is left of entries that add up to nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entries:
    """Entries of a matrix, [E] each; several of one place add up."""

    row: Ints
    column: Ints
    value: Floats

    def __add__(self, other: "Entries") -> "Entries":
        """The sum of two matrices."""
        return Entries(
            row=np.concatenate((self.row, other.row)),
            column=np.concatenate((self.column, other.column)),
            value=np.concatenate((self.value, other.value)),
        )

    def times(self, factor: float) -> "Entries":
        """Every entry times a factor."""
        return Entries(row=self.row, column=self.column, value=self.value * factor)

    def summed(self) -> "Entries":
        """One entry for each place, sorted by row and column; those that cancel are left out."""
        order = np.lexsort((self.column, self.row))
        row, column = self.row[order], self.column[order]
        begins = np.flatnonzero(np.append(True, (np.diff(row) != 0) | (np.diff(column) != 0))[: len(row)])
        value = np.add.reduceat(self.value[order], begins)
        kept = np.abs(value) > _CANCELLED
        return Entries(row=row[begins][kept], column=column[begins][kept], value=value[kept])

    def starts(self, rows: int) -> Ints:
        """Where each row's entries begin, [rows + 1], once they are sorted."""
        return np.searchsorted(self.row, np.arange(rows + 1))
