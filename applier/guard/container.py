"""Whether this process runs in a container, and whether its clock journals would go with it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from energyopt.applier.guard.journal import state_folder

_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_CGROUPS = Path("/proc/self/cgroup")
_CGROUP_HINTS = ("docker", "kubepods", "containerd", "libpod")
_MOUNTS = Path("/proc/self/mountinfo")
_FLEETING = ("overlay", "aufs", "fuse.fuse-overlayfs", "tmpfs")

ADVICE = (
    "whatever ends this container from outside (docker kill, a memory limit) ends the guard as well, and the "
    "journal goes with the container: set ENERGYOPT_STATE_DIR to a folder of the host, where energyopt doctor "
    "--restore then finds it"
)


def in_container() -> bool:
    """Whether something says so: a file that engines leave, their variable, or the control group's name."""
    if "container" in os.environ or any(mark.exists() for mark in _MARKS):
        return True
    return any(hint in _read(_CGROUPS) for hint in _CGROUP_HINTS)


def fleeting_state_folder() -> Path | None:
    """The state folder where it goes when this container does; None where it stays, or where the user named it.

    Raises:
        ClockControlError: there is no such folder.
    """
    if os.environ.get("ENERGYOPT_STATE_DIR") or not in_container():
        return None
    folder = state_folder()
    return folder if _kind_of_mount(folder.resolve()) in _FLEETING else None


def _kind_of_mount(folder: Path) -> str | None:
    """The file system that a folder, which need not exist, is on; the last of those mounted on one point counts."""
    kind, depth = None, -1
    for point, one in _mounts():
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = one, len(point.parts)
    return kind


def _mounts() -> Iterator[tuple[Path, str]]:
    """Where what is mounted (proc_pid_mountinfo(5)): the fifth field, and the one after the hyphen."""
    for line in _read(_MOUNTS).splitlines():
        place, _, source = line.partition(" - ")
        fields, kinds = place.split(), source.split()
        if len(fields) > 4 and kinds:
            yield Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])), kinds[0]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
