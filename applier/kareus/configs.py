"""One partition's communication setting: window, SMs and block size, as in `4-8-24-1024`.

A window is the kernel before which the communication is launched, and the one by which it is waited for: indices
in older files, names such as `rope_0` in newer ones. A launch of `none` (older: -1) means that it runs by itself;
an end of `none` that it is waited for where the partition ends.
"""

import re
from dataclasses import dataclass

from energyopt.schemas.nodes import Node
from energyopt.schemas.partitions import Execution, PartitionConfig

BLOCK_THREADS = 1024
"""Threads of a communication block: the only number that the artifact uses, and the most that CUDA allows."""

MOST_SMS = 512  # no GPU has as many; a block size in the SMs' place is found by it

KERNEL = re.compile(r"[0-9]{1,4}|[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
"""A kernel's index or name."""

_NONE = ("none", "-1")
_CONFIG = re.compile(r"(-1|\w+)-(-1|\w+)-([0-9]{1,6})-([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CommConfig:
    """How a partition's communication runs.

    start: the kernel before which it is launched; None where it runs by itself.
    end: the kernel by which it is waited for; None where that is the partition's end, or where it runs by itself.
    block: threads of one of its blocks.
    """

    start: str | None
    end: str | None
    sms: int
    block: int

    def __str__(self) -> str:
        if self.start is None:
            return f"sequential, {self.sms} SMs, block {self.block}"
        return f"window {self.start} to {self.end or 'none'}, {self.sms} SMs, block {self.block}"

    @property
    def partition_config(self) -> PartitionConfig:
        """What our own files say of it; the window's end and the block size have no place there."""
        execution = Execution.SEQUENTIAL if self.start is None else Execution.OVERLAPPED
        return PartitionConfig(execution=execution, comm_sms=self.sms, comm_launch=self.start)


def parse_config(node: Node) -> CommConfig:
    """Read a text such as `4-8-24-1024`, `rope_0-none-24-1024` or `none-none-16-1024`.

    Raises:
        FileFormatError: not such a text, or a number that cannot be; names the place.
    """
    found = _CONFIG.fullmatch(node.text())
    if found is None:
        node.fail(f"{node.text()[:40]!r} is no setting such as '4-8-24-1024' (launch, end, SMs, block size)")
    start, end, sms, block = found.groups()
    return checked_config(node, kernel(node, start), kernel(node, end), int(sms), int(block))


def kernel(node: Node, value: str | int) -> str | None:
    """One side of a window: an index or a name as text, None for none.

    Raises:
        FileFormatError: neither.
    """
    text = str(value)
    if text in _NONE:
        return None
    if not KERNEL.fullmatch(text):
        node.fail(f"{text[:40]!r} is no kernel's index or name, and not none")
    return str(int(text)) if text.isdigit() else text


def checked_config(node: Node, start: str | None, end: str | None, sms: int, block: int) -> CommConfig:
    """A setting of these parts.

    Raises:
        FileFormatError: SMs or threads that no GPU has, or a window that ends before it starts.
    """
    if not 1 <= sms <= MOST_SMS:
        node.fail(f"{sms} SMs; expected 1 to {MOST_SMS} (are SMs and block size exchanged?)")
    if not 1 <= block <= BLOCK_THREADS:
        node.fail(f"a block of {block} threads; expected 1 to {BLOCK_THREADS}")
    if start is None:
        return CommConfig(start=None, end=None, sms=sms, block=block)
    if start.isdigit() and (end or "").isdigit() and int(start) > int(end or ""):
        node.fail(f"the window ends at kernel {end}, before its start at {start}")
    return CommConfig(start=start, end=end, sms=sms, block=block)
