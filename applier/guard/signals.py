"""Work that a second Ctrl-C must not cut short."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Signals that ask this process to stop are acted on at the end of the block, as they would have been before.

    Where the block fails its error goes first: it ends the program too, and it may say that a clock stays locked.
    Python runs handlers in the main thread alone, so there is nothing to defer in any other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    earlier = {one: signal.getsignal(one) for one in _DEFERRED}
    mine = [one for one, handler in earlier.items() if handler not in (None, signal.SIG_IGN)]
    try:
        for one in mine:
            signal.signal(one, remember)
        yield
    finally:
        for one in mine:
            signal.signal(one, earlier[one])
    if arrived:
        signal.raise_signal(arrived[0])
