"""The ranks that profile together: one alone, or one per GPU under a launcher."""

from typing import Any, Protocol


class Team(Protocol):
    """What the ranks of one run agree through. Each call is made by all ranks, in the same order.

    Raises (all calls): MeasurementError where a rank is gone or does not answer in time.
    """

    @property
    def rank(self) -> int:
        """This rank's number."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank; a value is what JSON can hold."""


class Solo:
    """One process alone."""

    rank = 0
    size = 1

    def gather(self, value: Any) -> list[Any]:
        """The value itself."""
        return [value]
