"""Putting boards back as journals say: at the end of a run, by the guard, by the next run, or when a user asks."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from energyopt.applier.devices.interface import Device, FoundClocks
from energyopt.applier.guard import forks
from energyopt.applier.guard.journal import (
    Journal,
    Origin,
    journal_path,
    journals_in,
    read_journal,
    state_folder,
)
from energyopt.applier.guard.locks import lock_owner, try_lock
from energyopt.schemas.errors import ClockControlError, EnergyoptError

OpenDevice = Callable[[str], Device]
"""Opens a board by its UUID."""


class Standing(StrEnum):
    """What there is to do about a journal, or what became of it."""

    STALE = "stale"  # its owner has ended without giving the clocks back
    IN_USE = "in_use"
    OTHER_HOST = "other_host"
    RESTARTED = "restarted"  # the machine was restarted since, which undid the clocks
    DAMAGED = "damaged"
    RESTORED = "restored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One journal, and how it stands.

    uuid, device_name: None where the journal cannot be read.
    detail: why, or who.
    """

    path: Path
    standing: Standing
    detail: str
    uuid: str | None = None
    device_name: str | None = None


def give_back(device: Device, found: FoundClocks) -> None:
    """Put the clock knob back and check, as far as it can be read, that it stands as it was found.

    NVML reads application clocks back. It reads no lock, so `locked_mhz` None tells nothing; and where the rights
    are others than when the journal was written, the board may be told by its other knob.

    Raises:
        ClockControlError: refused, or it does not read back.
        DeviceError: the board does not answer.
    """
    device.restore_clocks(found)
    now = device.find_clocks()
    seen = (now.application_mhz, now.application_memory_mhz, now.locked_mhz or found.locked_mhz)
    expected = (found.application_mhz, found.application_memory_mhz, found.locked_mhz)
    if now.knob is found.knob and seen != expected:
        raise ClockControlError(
            f"{device.identity.uuid}: the clocks were given back as {found.to_json()} "
            f"but read as {now.to_json()}; look at nvidia-smi -q -d CLOCK"
        )


def look_at_all(uuid: str | None = None) -> tuple[Outcome, ...]:
    """How every journal, or that of one board, stands; nothing is changed."""
    return _each(uuid, lambda path, journal: _outcome(path, journal, Standing.STALE, _left(journal)))


def restore_all(uuid: str | None = None, open_device: OpenDevice | None = None) -> tuple[Outcome, ...]:
    """Put back every board, or one, whose owner has ended; boards in use and other hosts' are left alone."""
    opener = open_nvml_board if open_device is None else open_device
    return _each(uuid, lambda path, journal: _restore(path, journal, opener))


def open_nvml_board(uuid: str) -> Device:
    """Open a real board by its UUID.

    Raises:
        DeviceError: it is not there, or there is no driver.
    """
    from energyopt.applier.devices.nvml import open_nvml

    return open_nvml(uuid)


def _each(uuid: str | None, treat: Callable[[Path, Journal], Outcome]) -> tuple[Outcome, ...]:
    folder = state_folder()
    paths = [path for path in journals_in(folder) if uuid is None or path == journal_path(folder, uuid)]
    outcomes = (_judge(path, treat) for path in paths)
    return tuple(one for one in outcomes if one is not None)


def _judge(path: Path, treat: Callable[[Path, Journal], Outcome]) -> Outcome | None:
    """Take the lock, then see what the journal says; None where its owner removed it meanwhile."""
    try:
        lock = try_lock(path)
        try:
            journal = read_journal(path)
            return _in_use(path, journal) if lock is None else _by_origin(path, journal, treat)
        finally:
            if lock is not None:
                forks.close(lock)
    except EnergyoptError as error:
        if not path.exists():
            return None
        return Outcome(
            path=path, standing=Standing.DAMAGED, detail=f"{error}; delete it once the clocks are right"
        )


def _by_origin(path: Path, journal: Journal, treat: Callable[[Path, Journal], Outcome]) -> Outcome:
    origin = journal.origin()
    if origin is Origin.OTHER_HOST:
        detail = f"written on {journal.host}; run energyopt doctor --restore there"
        return _outcome(path, journal, Standing.OTHER_HOST, detail)
    return treat(path, journal)


def _restore(path: Path, journal: Journal, open_device: OpenDevice) -> Outcome:
    try:
        device = open_device(journal.uuid)
    except EnergyoptError as error:
        detail = f"{error}; if this GPU is gone for good, delete {path}"
        return _outcome(path, journal, Standing.FAILED, detail)
    try:
        restarted = journal.origin() is Origin.EARLIER_BOOT
        if not restarted:
            give_back(device, journal.found)
    except EnergyoptError as error:
        return _outcome(path, journal, Standing.FAILED, str(error))
    finally:
        device.close()
    path.unlink(missing_ok=True)
    if restarted:
        return _outcome(path, journal, Standing.RESTARTED, "this machine was restarted since, which undid it")
    return _outcome(path, journal, Standing.RESTORED, f"as {journal.owner} had found it")


def _in_use(path: Path, journal: Journal) -> Outcome:
    owner = lock_owner(path) or journal.owner
    if not owner.alive():
        detail = f"{owner} has ended, and its guard or something that it started still holds it; try again"
    else:
        detail = f"held by {owner}; wait for it or stop it"
    return _outcome(path, journal, Standing.IN_USE, detail)


def _left(journal: Journal) -> str:
    if journal.origin() is Origin.EARLIER_BOOT:
        return "from before this machine was restarted; energyopt doctor --restore removes it"
    return f"left by {journal.owner}; energyopt doctor --restore gives the clocks back"


def _outcome(path: Path, journal: Journal, standing: Standing, detail: str) -> Outcome:
    return Outcome(
        path=path, standing=standing, detail=detail, uuid=journal.uuid, device_name=journal.device_name
    )
