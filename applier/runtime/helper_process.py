"""The helper as its training rank sees it: started before the first operation, and never waited for after that."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from energyopt.applier.guard import forks
from energyopt.applier.guard.handshake import first_line, last_line, spawn
from energyopt.applier.helper.orders import READY, Orders
from energyopt.applier.runtime import channel
from energyopt.applier.runtime.standard import children_get, standard_taken
from energyopt.schemas.errors import ClockControlError

MODULE = "energyopt.applier.helper"
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

    def __init__(
        self, process: "subprocess.Popen[bytes]", orders_end: int, orders: Orders, answer: Answer
    ) -> None:
        self._process = process
        self._orders_end: int | None = orders_end
        self._orders = orders
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
        """Let it end, and wait until it has given the clocks back; False if it had to be killed."""
        self._let_go()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its guard gives the clocks back as soon as the driver lets go of it
            return False
        return True

    def give_back_after(self) -> None:
        """It was killed, and so perhaps was its guard: have another process give back what the two may have left.

        That one recovers the board as every run does at its start, finds at once that training is over, and ends.
        It is not waited for; `dismiss` does.
        """
        self._let_go()
        if not self.answer.held:
            return
        with suppress(OSError), standard_taken():  # none to be had: then it is for energyopt doctor --restore
            self._process = _start_last(self._orders)

    def _let_go(self) -> None:
        if self._orders_end is not None:
            forks.close(self._orders_end)
            self._orders_end = None


def start_helper(orders: Orders) -> HelperProcess:
    """Start a rank's helper and wait until it has opened the board.

    Raises:
        ClockControlError: it could not start; nothing was set.
    """
    answer_read, answer_end = os.pipe()
    try:
        process, orders_end = _spawn(orders.memory, answer_end)
    except OSError as error:
        os.close(answer_read)
        raise _failed(error.strerror or str(error)) from error
    finally:
        os.close(answer_end)
    try:
        _write_all(orders_end, orders.to_line())
        line, said = first_line(answer_read, _START_LIMIT_S, READY.encode())
    finally:
        os.close(answer_read)
    if line is None:
        process.kill()
        process.wait()
        forks.close(orders_end)
        raise _failed(last_line(said) or f"it said nothing within {_START_LIMIT_S:g} s")
    os.set_blocking(orders_end, False)
    return HelperProcess(process, orders_end, orders, _answer(line))


def _spawn(memory: int, answer_end: int) -> "tuple[subprocess.Popen[bytes], int]":
    """Start one; gives it, and the end of the pipe that takes its orders."""
    errors = None if children_get(2) else subprocess.DEVNULL
    orders_read, orders_end = os.pipe()
    try:
        process = spawn(MODULE, orders_read, answer_end, [memory], stderr=errors)
    except OSError:
        os.close(orders_end)
        raise
    finally:
        os.close(orders_read)
    return process, forks.keep(orders_end)


def _start_last(orders: Orders) -> "subprocess.Popen[bytes]":
    """A helper whose training is over when it starts; it still puts right what killed ones have left."""
    memory = channel.create()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        channel.Writer(memory).put(channel.CLOSE)
        process, orders_end = _spawn(memory, nowhere)
        brief = replace(orders, memory=memory, clocks_mhz=((orders.safe_mhz,),), header={}, shard=None)
        _write_all(orders_end, brief.to_line())  # so short that the pipe takes it at once
        forks.close(orders_end)
    finally:
        os.close(nowhere)
        os.close(memory)
    return process


def _write_all(descriptor: int, content: bytes) -> None:
    with suppress(BrokenPipeError):  # it has died, which its silence tells
        while content:
            content = content[os.write(descriptor, content) :]


def _answer(line: bytes) -> Answer:
    value = json.loads(line.removeprefix(READY.encode()))
    return Answer(held=value["held"], problems=tuple(value["problems"]), board=value["board"])


def _failed(reason: str) -> ClockControlError:
    return ClockControlError(f"the process that sets clocks could not start: {reason}; no clock was changed")
