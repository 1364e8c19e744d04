"""Starting a child of this program as a fresh interpreter, and waiting for its first word.

A child is always exec'ed, never a bare fork: a forked child can use neither CUDA nor NVML.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def spawn(
    module: str, orders: int, answer: int, pass_fds: Sequence[int], *, stderr: int | None = subprocess.STDOUT
) -> "subprocess.Popen[bytes]":
    """The same interpreter, modules and driver as this process, in a session of its own.

    Args:
        module: what it runs; `-P` leaves out this folder's modules.
        orders: descriptor of its standard input.
        answer: descriptor of its standard output.
        pass_fds: further descriptors that it inherits.
        stderr: where its errors go; None for where this process's go.
    """
    modules = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-m", module],
        stdin=orders,
        stdout=answer,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": modules},
    )


def first_line(answer: int, limit_s: float, ready: bytes) -> tuple[bytes | None, bytes]:
    """Read until a line that starts with `ready`; give that line and all that was said.

    The line is None where the child has closed its output, or has not said it within `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    said = b""
    while True:
        for line in said.splitlines(keepends=True):
            if line.startswith(ready) and line.endswith(b"\n"):
                return line, said
        piece = _read_by(answer, deadline)
        if not piece:
            return None, said
        said += piece


def last_line(said: bytes) -> str:
    """The last line of what was said, for a message."""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _read_by(descriptor: int, deadline: float) -> bytes:
    """What there is to read before the deadline; nothing at the end of the stream, or when it is too late."""
    poller = select.poll()  # unlike select() it knows descriptors above 1023
    poller.register(descriptor, select.POLLIN)
    left_ms = max(0.0, deadline - time.monotonic()) * 1e3
    return os.read(descriptor, 4096) if poller.poll(left_ms) else b""
