"""Which process holds a board's clocks, told so that a recycled process number is not taken for it."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from energyopt.schemas.nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One process on this host.

    start_ticks: when it was started, in clock ticks since boot, as /proc tells; None where there is no /proc.
    pid_namespace: where its number means something; containers have one each.
    command: what it runs, such as `energyopt profile`.
    since: when it took hold, UTC.
    """

    pid: int
    start_ticks: int | None
    pid_namespace: str | None
    command: str
    since: str

    def alive(self) -> bool:
        """Whether it runs; one of another container, which cannot be looked up from here, counts as running."""
        if self.pid_namespace != _pid_namespace():
            return True
        return start_ticks(self.pid) == self.start_ticks and _exists(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) since {self.since}"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "pid_namespace": self.pid_namespace,
            "command": self.command,
            "since": self.since,
        }


def this_process() -> Owner:
    """The process that calls."""
    return Owner(
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()),
        pid_namespace=_pid_namespace(),
        command=_command(),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def owner_from(node: Node) -> Owner:
    """Read what `Owner.to_json` wrote.

    Raises:
        FileFormatError: a field is missing or of the wrong type.
    """
    ticks, namespace = node.optional("start_ticks"), node.optional("pid_namespace")
    return Owner(
        pid=node.field("pid").integer(minimum=1),
        start_ticks=None if ticks is None else ticks.integer(minimum=0),
        pid_namespace=None if namespace is None else namespace.text(),
        command=node.field("command").text(),
        since=node.field("since").text(),
    )


def start_ticks(pid: int) -> int | None:
    """When a process was started (proc_pid_stat(5), field 22); None if it has ended or there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before may hold blanks and brackets
    return None if state in ("Z", "X") else int(fields[18])  # a zombie has ended


def pidfd(pid: int) -> int | None:
    """A descriptor that turns readable when a process ends; None where the kernel has none."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pid_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def _command() -> str:
    """The program and its first word: enough to know it by, with nothing in it that may be secret."""
    name = Path(sys.argv[0]).name or "python" if sys.argv else "python"
    words = [word for word in sys.argv[1:2] if word.isidentifier()]
    return " ".join([name, *words])
