"""What an adapter does inside a framework's call must not become an exception of the training."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType

from energyopt.applier.runtime.ranks import rank
from energyopt.applier.runtime.reports import Reports

_REPORTS: list[Reports] = []


class _Quietly:
    """Ends the block at an exception and goes on after it; the first one of each type is said."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):  # none, or one that must not be held up, such as an interrupt
            return False
        with suppress(Exception):
            _report(error)
        return True


QUIETLY = _Quietly()
"""Around bookkeeping. A block holds no state, so one object serves all, at 0.1 us each."""


@contextmanager
def quiet_block(make: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """The block that `make` gives, or none where making or entering it fails; leaving it never raises either.

    What the code in the block raises passes through unseen by the block of `make`.
    """
    entered: AbstractContextManager[None] | None = None
    with QUIETLY:
        block = make()
        block.__enter__()
        entered = block
    try:
        yield
    finally:
        with QUIETLY:
            if entered is not None:
                entered.__exit__(None, None, None)


def _report(error: Exception) -> None:
    if not _REPORTS:
        _REPORTS.append(Reports(rank()))
    name = type(error).__name__
    _REPORTS[0].once(name, f"an adapter left out what it could not tell: {name}: {error}; training goes on")
