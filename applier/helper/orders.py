"""What a training rank tells its helper at the start, as one line of JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

READY = "ready "
"""What the helper's answer begins with, before an object of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Everything the helper is told.

    pid, start_ticks: the training process, whose end is the helper's.
    memory: descriptor of the channel's shared memory.
    device: which board to open (`applier.devices.nvml.open_nvml`), or None for none.
    apply: whether clocks are set.
    device_name: the plan's GPU; another one is observed only.
    clocks_mhz: for the plan and each alternative, the clock of every operation of this stage.
    site_lock_mhz: the lock that the site had set; site_lock_known says that None means there was none.
    latency_s: how far ahead a clock is asked for; None for what setting one takes here.
    shard: where telemetry goes; None for nowhere.
    header: the shard's first line, to which the helper adds what it knows of the board.
    every: every how many iterations is recorded.
    slowdown_file: what to look for, every second, on an operator's behalf.
    """

    pid: int
    start_ticks: int | None
    rank: int
    memory: int
    device: str | None
    apply: bool
    device_name: str
    clocks_mhz: tuple[tuple[int, ...], ...]
    safe_mhz: int
    site_lock_mhz: tuple[int, int] | None = None
    site_lock_known: bool = False
    latency_s: float | None = None
    shard: str | None = None
    header: dict[str, Any] = field(default_factory=dict)
    every: int = 1
    slowdown_file: str | None = None

    def to_line(self) -> bytes:
        """As a line for the helper's standard input."""
        return json.dumps(asdict(self)).encode() + b"\n"


def orders_from(line: bytes) -> Orders:
    """The orders that a line holds; it comes from this very program."""
    value = json.loads(line)
    value["clocks_mhz"] = tuple(tuple(clocks) for clocks in value["clocks_mhz"])
    if value["site_lock_mhz"] is not None:
        value["site_lock_mhz"] = tuple(value["site_lock_mhz"])
    return Orders(**value)
