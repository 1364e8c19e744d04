"""The journal: how a board's clocks stood before this tool touched them, on disk before the first set.

One JSON file per board in the state folder. It is there exactly while the board may stand otherwise than it was
found; whoever finds one whose owner has ended puts the board back as it says.
"""

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from energyopt import __version__
from energyopt.applier.devices.interface import ClockKnob, FoundClocks
from energyopt.applier.guard.owner import Owner, owner_from
from energyopt.schemas.errors import ClockControlError, EnergyoptError
from energyopt.schemas.files import canonical_json, read_json, write_bytes
from energyopt.schemas.nodes import Node, check_header

FORMAT = "energyopt-clock-journal"
SCHEMA_VERSION = 1


class Origin(StrEnum):
    """Where a journal was written, seen from here."""

    THIS_BOOT = "this_boot"
    EARLIER_BOOT = "earlier_boot"  # a restart undoes every clock that was set
    OTHER_HOST = "other_host"  # its home folder is ours as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What giving a board's clocks back means, and who owes it.

    boot_id: which start of which machine, the same in all its containers; None where the kernel does not tell.
    """

    uuid: str
    device_name: str
    host: str
    boot_id: str | None
    owner: Owner
    found: FoundClocks
    tool_version: str = __version__

    def origin(self) -> Origin:
        """Whether it is about a board of this machine as it runs now."""
        here = self.host == host_name()
        if self.boot_id == boot_id() and (here or self.boot_id is not None):
            return Origin.THIS_BOOT
        return Origin.EARLIER_BOOT if here else Origin.OTHER_HOST


def state_folder() -> Path:
    """$ENERGYOPT_STATE_DIR, else $XDG_STATE_HOME/energyopt, else ~/.local/state/energyopt; always absolute.

    Raises:
        ClockControlError: this user has no home folder.
    """
    if own := os.environ.get("ENERGYOPT_STATE_DIR"):
        return Path(own).absolute()
    base = os.environ.get("XDG_STATE_HOME", "")
    if Path(base).is_absolute():  # the XDG specification has relative ones ignored
        return Path(base) / "energyopt"
    try:
        return Path.home() / ".local/state/energyopt"
    except RuntimeError as error:
        raise ClockControlError(
            "this user has no home folder for the clock journal; set ENERGYOPT_STATE_DIR"
        ) from error


def make_state_folder() -> Path:
    """The state folder, made for this user alone where it was not there.

    Raises:
        ClockControlError: it cannot be made.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error.strerror) from error
    return folder


def unwritable(folder: Path, reason: object) -> ClockControlError:
    """The error that the journal cannot be kept."""
    return ClockControlError(
        f"the clock journal cannot be kept in {folder}: {reason}; no clock was changed; "
        "set ENERGYOPT_STATE_DIR to a folder that you may write to"
    )


def journal_path(folder: Path, uuid: str) -> Path:
    """The journal of one board."""
    return folder / f"{re.sub('[^A-Za-z0-9-]', '_', uuid)}.json"


def write_journal(path: Path, journal: Journal) -> None:
    """Put it on the disk, whole or not at all.

    Raises:
        ClockControlError: it cannot be written.
    """
    found = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "tool_version": journal.tool_version,
        "uuid": journal.uuid,
        "device_name": journal.device_name,
        "host": journal.host,
        "boot_id": journal.boot_id,
        "owner": journal.owner.to_json(),
        "found": journal.found.to_json(),
    }
    try:
        write_bytes(path, canonical_json(found).encode())
    except EnergyoptError as error:
        raise unwritable(path.parent, error) from error


def read_journal(path: Path) -> Journal:
    """Read one.

    Raises:
        FileFormatError: it is damaged, or of a newer version.
    """
    root = Node(path, "$", read_json(path))
    check_header(root, FORMAT, SCHEMA_VERSION)
    boot = root.optional("boot_id")
    return Journal(
        uuid=root.field("uuid").text(),
        device_name=root.field("device_name").text(),
        host=root.field("host").text(),
        boot_id=None if boot is None else boot.text(),
        owner=owner_from(root.field("owner")),
        found=_found(root.field("found")),
        tool_version=root.field("tool_version").text(),
    )


def journals_in(folder: Path) -> tuple[Path, ...]:
    """The journals of a state folder, which need not exist."""
    return tuple(sorted(folder.glob("*.json")))


def host_name() -> str:
    """What this machine, or this container, calls itself."""
    return os.uname().nodename


def boot_id() -> str | None:
    """A number that the kernel draws at each start; None where it does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _found(node: Node) -> FoundClocks:
    knob, locked = node.field("knob"), node.optional("locked_mhz")
    if knob.text() not in list(ClockKnob):
        knob.fail(f"unknown knob {knob.text()!r}; known are {', '.join(ClockKnob)}")
    return FoundClocks(
        knob=ClockKnob(knob.text()),
        locked_mhz=None if locked is None else _range(locked),
        application_mhz=_clock(node.optional("application_mhz")),
        application_memory_mhz=_clock(node.optional("application_memory_mhz")),
    )


def _clock(node: Node | None) -> int | None:
    return None if node is None else node.integer(minimum=1)


def _range(node: Node) -> tuple[int, int]:
    values = [one.integer(minimum=0) for one in node.items()]
    if len(values) != 2:
        node.fail(f"expected the lowest and the highest clock, found {len(values)} values")
    return values[0], values[1]
