"""A file that one process at a time writes: a lock (flock) on it for as long as the process lives."""

import fcntl
import os
from pathlib import Path

from energyopt.applier.guard import forks
from energyopt.schemas.errors import MeasurementError

LOCKS = Path("/proc/locks")


def take_file(path: Path) -> int:
    """Take a file for this process, made where it was not there; gives a descriptor for `forks.close`.

    A file system without locks gives it to everybody.

    Raises:
        MeasurementError: another process has it; names that process where the kernel tells.
        OSError: it cannot be opened.
    """
    while True:
        descriptor = forks.keep(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        if not _try_lock(descriptor):
            forks.close(descriptor)
            raise MeasurementError(
                f"{path} is being written by {_holder(path)}; wait for it, stop it, or give another -o"
            )
        if _is_there(path, descriptor):
            return descriptor
        forks.close(descriptor)  # its owner ended between the opening and the lock, and removed it


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True


def _is_there(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _holder(path: Path) -> str:
    """Who has the lock, by the kernel's list (proc_locks(5)), which leaves out those of other containers."""
    try:
        found, lines = path.stat(), LOCKS.read_text(encoding="ascii").splitlines()
    except OSError:
        return "another process"
    where = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for words in map(str.split, lines):
        if words[1] == "FLOCK" and words[5] == where and int(words[4]) > 0:
            return f"process {words[4]}"
    return "another process"
