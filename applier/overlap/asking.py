"""Whether a training asks for what the plan names: else it would run otherwise, and nobody would know."""

from collections.abc import Callable, Iterable


class Asking:
    """What is planned and what is asked for, until the first iteration that follows the plan has ended.

    names: partitions that were asked for.
    cut: whether the number of parts was.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._open = True
        self._names: set[str] = set()
        self._parts = 1
        self.names: set[str] = set()
        self.cut = False

    def planned(self, nanobatches: int, names: Iterable[str]) -> None:
        """An operation begins that the plan runs in so many parts, with these partitions."""
        if self._open:
            self._parts = max(self._parts, nanobatches)
            self._names.update(names)

    def ended(self) -> None:
        """An iteration has ended: say what was not asked for, if any of its operations was planned."""
        if not self._open or not (self._names or self._parts > 1):
            return
        self._open = False
        missing = sorted(self._names - self.names)
        if missing:
            self._say(
                f"the plan's partitions {', '.join(missing)} were not asked for in the first iteration "
                "(session.overlap with these names): expect other times and energies than the plan's"
            )
        if self._parts > 1 and not self.cut:
            self._say(
                f"the plan cuts microbatches into {self._parts} parts, and how many was not asked for in the first "
                "iteration (session.nanobatches): expect other times and energies than the plan's"
            )
