"""One process at a time sets or measures a board: a lock on a file beside the journal, for as long as it lives.

The lock (flock) is shared with the guard process, so that it is let go only when the board stands as it was found
or both have been killed. It rules among those that use one state folder: users or containers that share a board
set ENERGYOPT_STATE_DIR to one folder.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from energyopt.applier.devices.interface import Device
from energyopt.applier.guard import forks
from energyopt.applier.guard.journal import journal_path, make_state_folder, unwritable
from energyopt.applier.guard.owner import Owner, owner_from, this_process
from energyopt.schemas.errors import ClockControlError, DeviceError, FileFormatError
from energyopt.schemas.files import canonical_json, read_json
from energyopt.schemas.nodes import Node

PATIENCE_S = 10.0
"""How long to wait for the guard of an owner that has ended; a restore takes well under a second."""

_RETRY_S = 0.05

SIMULATED = "simulated"


@contextmanager
def reserved(device: Device) -> Iterator[None]:
    """Keep other runs off a board that this process only reads: each would count what the other uses.

    A simulated board is this process's own.

    Raises:
        DeviceError: another process has it, or a run that was killed has left its clocks set.
        ClockControlError: the lock file cannot be written.
    """
    if device.identity.kind == SIMULATED:
        yield
        return
    uuid = device.identity.uuid
    journal = journal_path(make_state_folder(), uuid)
    lock = take_lock(journal, uuid)
    try:
        if journal.exists():
            raise DeviceError(
                f"a run that was killed has left the clocks of {uuid} set; give them back first, with "
                "energyopt doctor --restore"
            )
        yield
    finally:
        forks.close(lock)


def lock_path(journal: Path) -> Path:
    """The lock file that goes with a journal; it stays when the lock is let go."""
    return journal.with_suffix(".lock")


def take_lock(journal: Path, uuid: str, patience_s: float = PATIENCE_S) -> int:
    """Take a board for this process; gives a descriptor for `forks.close`.

    Raises:
        DeviceError: another process has it; names that process.
        ClockControlError: the lock file cannot be written.
    """
    descriptor = try_lock(journal)
    deadline = time.monotonic() + patience_s
    while descriptor is None:
        owner = lock_owner(journal)
        if owner is not None and owner.alive():
            raise DeviceError(f"{uuid} is in use by {owner}; wait for it or stop it")
        if time.monotonic() > deadline:
            raise _left_behind(uuid, owner, patience_s)
        time.sleep(_RETRY_S)  # the owner is about to sign, or its guard to give the clocks back
        descriptor = try_lock(journal)
    _sign(descriptor, journal)
    return descriptor


def try_lock(journal: Path) -> int | None:
    """Take the lock if it is free, without signing; None if somebody has it.

    Raises:
        ClockControlError: the lock file cannot be opened, or its file system has no locks.
    """
    try:
        descriptor = os.open(lock_path(journal), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(journal.parent, error.strerror) from error
    forks.keep(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        forks.close(descriptor)
        return None
    except OSError as error:
        forks.close(descriptor)
        raise unwritable(journal.parent, f"no file locks there: {error.strerror}") from error
    return descriptor


def lock_owner(journal: Path) -> Owner | None:
    """Who signed the lock last; None if nobody has, or is just signing."""
    try:
        return owner_from(Node(lock_path(journal), "$", read_json(lock_path(journal))))
    except FileFormatError:
        return None


def _sign(descriptor: int, journal: Path) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, canonical_json(this_process().to_json()).encode(), 0)
    except OSError as error:
        forks.close(descriptor)
        raise unwritable(journal.parent, error.strerror) from error


def _left_behind(uuid: str, owner: Owner | None, patience_s: float) -> DeviceError:
    who = "a process that left no name" if owner is None else f"{owner}, which has ended"
    return ClockControlError(
        f"{uuid} was in use by {who}, and something that it started holds the lock for {patience_s:g} s now; "
        "end what is left of it, then run energyopt doctor --restore"
    )
