"""The guard process as its parent sees it: started before anything is set, told "done" when all is given back."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from energyopt.applier.guard import forks
from energyopt.applier.guard.handshake import first_line, last_line, spawn
from energyopt.applier.guard.owner import this_process
from energyopt.schemas.errors import ClockControlError

READY = "ready"
DONE = "done"
START_LIMIT_S = 60.0
"""Opening eight boards takes 1-5 s without a persistence daemon; a loaded machine takes longer."""

_END_LIMIT_S = 20.0


class Guard:
    """A running guard process."""

    def __init__(self, process: "subprocess.Popen[bytes]", pipe: int) -> None:
        self._process = process
        self._pipe: int | None = pipe

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still watches."""
        return self._process.poll() is None

    def dismiss(self) -> None:
        """Tell it that all clocks are given back, and wait for its end."""
        self._say(f"{DONE}\n".encode())
        self.take_over()

    def take_over(self) -> None:
        """Let go of the pipe, upon which it gives back what is still journaled; wait for its end.

        One that does not end, since the driver does not answer, is killed: its journals tell the rest.
        """
        if self._pipe is not None:
            forks.close(self._pipe)
            self._pipe = None  # the number may soon be another file's
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)

    def _say(self, message: bytes) -> None:
        if self._pipe is not None:
            with suppress(OSError):  # it has died, which the parent finds out by `alive`
                os.write(self._pipe, message)


def start_guard(boards: Mapping[str, Path], locks: Sequence[int]) -> Guard:
    """Start a guard for boards, given as UUID and journal, and wait until it watches this process.

    Args:
        boards: journals may be written later; those that are there when this process ends are acted on.
        locks: descriptors of the boards' locks, which it shares.

    Raises:
        ClockControlError: it could not start, or cannot open a board.
    """
    orders, orders_end = os.pipe()
    answer, answer_end = os.pipe()
    try:
        process = spawn("energyopt.applier.guard", orders, answer_end, locks)
    except OSError as error:
        os.close(orders_end)
        os.close(answer)
        raise _failed(error.strerror or str(error)) from error
    finally:
        os.close(orders)
        os.close(answer_end)
    guard = Guard(process, forks.keep(orders_end))
    guard._say(_orders(boards))
    _await_ready(guard, answer)
    return guard


def _orders(boards: Mapping[str, Path]) -> bytes:
    owner = this_process()
    value = {
        "pid": owner.pid,
        "start_ticks": owner.start_ticks,
        "boards": {uuid: str(path) for uuid, path in boards.items()},
    }
    return json.dumps(value).encode() + b"\n"


def _await_ready(guard: Guard, answer: int) -> None:
    """Read its first line: that it watches, or why it cannot."""
    try:
        line, said = first_line(answer, START_LIMIT_S, READY.encode())
    finally:
        os.close(answer)
    if line is None:
        guard._process.kill()
        guard.take_over()
        raise _failed(last_line(said) or f"it said nothing within {START_LIMIT_S:g} s")


def _failed(reason: str) -> ClockControlError:
    return ClockControlError(
        f"the guard process that gives clocks back if this one is killed could not start: {reason}; "
        "no clock was changed"
    )
