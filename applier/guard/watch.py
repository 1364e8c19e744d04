"""What the guard process does: wait for the end of its parent, then put back every board that is still journaled.

Two signs are watched. The parent's pidfd tells its end even where forked workers of it hold the pipe open; the end
of the pipe tells it where the kernel has no pidfd. Where there is none, the parent's number is looked up as well.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from energyopt.applier.devices.interface import Device
from energyopt.applier.guard.journal import read_journal
from energyopt.applier.guard.owner import pidfd, start_ticks
from energyopt.applier.guard.process import DONE, READY
from energyopt.applier.guard.restore import give_back, open_nvml_board
from energyopt.schemas.errors import EnergyoptError

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOOK_UP_MS = 500
_ATTEMPTS = 3
_BETWEEN_ATTEMPTS_S = 0.5


@dataclass(frozen=True, slots=True)
class _Orders:
    pid: int
    start_ticks: int | None
    boards: dict[str, Path]


def main() -> int:
    """Watch as told on standard input; 0 if all is given back, 1 if it cannot watch or a board refuses."""
    for one in _IGNORED:  # a batch system sends them to everybody, and then the parent needs its guard
        signal.signal(one, signal.SIG_IGN)
    line, _, rest = _first_line().partition(b"\n")
    value = json.loads(line)
    orders = _Orders(value["pid"], value["start_ticks"], {k: Path(v) for k, v in value["boards"].items()})
    try:
        devices = {uuid: open_nvml_board(uuid) for uuid in orders.boards}
    except EnergyoptError as error:
        print(error, flush=True)
        return 1
    print(READY, flush=True)
    _silence()
    if _dismissed(orders, rest):
        return 0
    failed = [uuid for uuid, path in orders.boards.items() if not _put_back(devices[uuid], path, orders)]
    return 1 if failed else 0


def _first_line() -> bytes:
    said = b""
    while b"\n" not in said:
        piece = os.read(0, 4096)
        if not piece:
            sys.exit(0)  # the parent ended before it had said anything, so it has set nothing
        said += piece
    return said


def _silence() -> None:
    """Hold nothing of the parent's terminal or pipes open."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _dismissed(orders: _Orders, said: bytes) -> bool:
    """Wait for the parent's word (True) or its end (False)."""
    for piece in _listen(orders):
        said += piece
        if DONE.encode() in said:
            return True
    return False


def _listen(orders: _Orders) -> Iterator[bytes]:
    """What the parent says, until it ends."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    watched = pidfd(orders.pid)
    if watched is not None:
        poller.register(watched, select.POLLIN)
    patience_ms = _LOOK_UP_MS if watched is None else None
    while start_ticks(orders.pid) == orders.start_ticks:
        ready = dict(poller.poll(patience_ms))
        if 0 in ready:
            piece = os.read(0, 4096)
            if not piece:
                return
            yield piece
        elif ready:
            return


def _put_back(device: Device, path: Path, orders: _Orders) -> bool:
    """Put one board back if this parent's journal is there; a driver that was upset gets another chance."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_BETWEEN_ATTEMPTS_S)
        try:
            if not _owed(path, orders):
                return True
            fresh = open_nvml_board(device.identity.uuid) if attempt else device
            give_back(fresh, read_journal(path).found)
            path.unlink()
            return True
        except EnergyoptError:  # nobody is left to tell; the journal stays, and doctor shows it
            continue
    return False


def _owed(path: Path, orders: _Orders) -> bool:
    if not path.exists():
        return False
    owner = read_journal(path).owner
    return (owner.pid, owner.start_ticks) == (orders.pid, orders.start_ticks)
