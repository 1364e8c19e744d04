"""The block that `Session.op` gives."""

from collections.abc import Callable
from types import TracebackType


class OpBlock:
    """Calls `end` when it is left, however; one serves all operations of a session."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
