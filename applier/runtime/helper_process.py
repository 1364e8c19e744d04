"""The helper as its training rank sees it: started before the first operation, and never waited for after that."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from energyopt.applier.guard import forks
from energyopt.applier.guard.handshake import first_line, last_line, spawn
from energyopt.applier.helper.orders import Orders
from energyopt.schemas.errors import ClockControlError

MODULE = "energyopt.applier.helper"
_READY = b"ready "
_START_LIMIT_S = 120.0
_END_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the helper found at its start.

    held: whether it sets clocks.
    problems: why things are not as they were asked for, one line each.
    board: what it knows of the board; None where it has none.
    """

    held: bool
    problems: tuple[str, ...]
    board: dict[str, Any] | None


class HelperProcess:
    """A running helper."""

    def __init__(self, process: "subprocess.Popen[bytes]", orders_end: int, answer: Answer) -> None:
        self._process = process
        self._orders_end: int | None = orders_end
        self.answer = answer

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code if it has ended; does not wait."""
        return self._process.poll()

    def tell(self, text: str) -> None:
        """Pass a report on for the shard; dropped where the helper is too busy to read."""
        if self._orders_end is not None:
            with suppress(OSError):
                os.write(self._orders_end, text.replace("\n", " ").encode()[:2000] + b"\n")

    def dismiss(self) -> bool:
        """Let it end, and wait until it has given the clocks back; False if that takes too long."""
        if self._orders_end is not None:
            forks.close(self._orders_end)
            self._orders_end = None
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return False
        return True


def start_helper(orders: Orders) -> HelperProcess:
    """Start a rank's helper and wait until it has opened the board.

    Raises:
        ClockControlError: it could not start; nothing was set.
    """
    orders_read, orders_end = os.pipe()
    answer_read, answer_end = os.pipe()
    try:
        process = spawn(MODULE, orders_read, answer_end, [orders.memory], stderr=None)
    except OSError as error:
        os.close(orders_end)
        os.close(answer_read)
        raise _failed(error.strerror or str(error)) from error
    finally:
        os.close(orders_read)
        os.close(answer_end)
    forks.keep(orders_end)
    try:
        _write_all(orders_end, orders.to_line())
        line, said = first_line(answer_read, _START_LIMIT_S, _READY)
    finally:
        os.close(answer_read)
    if line is None:
        process.kill()
        process.wait()
        forks.close(orders_end)
        raise _failed(last_line(said) or f"it said nothing within {_START_LIMIT_S:g} s")
    os.set_blocking(orders_end, False)
    return HelperProcess(process, orders_end, _answer(line))


def _write_all(descriptor: int, content: bytes) -> None:
    with suppress(BrokenPipeError):  # it has died, which its silence tells
        while content:
            content = content[os.write(descriptor, content) :]


def _answer(line: bytes) -> Answer:
    value = json.loads(line.removeprefix(_READY))
    return Answer(held=value["held"], problems=tuple(value["problems"]), board=value["board"])


def _failed(reason: str) -> ClockControlError:
    return ClockControlError(f"the process that sets clocks could not start: {reason}; no clock was changed")
