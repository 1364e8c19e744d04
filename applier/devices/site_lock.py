"""A lock that the site had set before us: NVML can set locks and take them off, and cannot read them.

So before the first set a board is watched under load. One that stays below its highest clock with nothing to
explain it is perhaps locked, and giving clocks back would take that lock off: the user then says what there was.
"""

import re
from collections.abc import Sequence
from statistics import median

from energyopt.applier.devices.interface import (
    UNREPRODUCIBLE,
    Absent,
    Capabilities,
    ClockKnob,
    Device,
    FoundClocks,
    Identity,
    State,
    Throttle,
)
from energyopt.schemas.errors import ClockControlError, RequestError

NEAR = 0.97
NONE = "none"
EXPLAINED = UNREPRODUCIBLE | Throttle.SW_POWER_CAP | Throttle.SYNC_BOOST | Throttle.GPU_IDLE


def parse_site_lock(text: str | None) -> tuple[int, int] | None:
    """The lock that `--site-lock-mhz` names; None for `none` and where nothing is said.

    Raises:
        RequestError: no such form.
    """
    if text is None or text == NONE:
        return None
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise RequestError(f"--site-lock-mhz {text!a} is neither LOW:HIGH, such as 210:1200, nor none")
    return int(match[1]), int(match[2])


def lock_cannot_be_known(device: Device) -> bool:
    """Whether a board is of the kind whose locks nobody can read, so that it has to be watched."""
    return device.capabilities.knob is ClockKnob.LOCKED_CLOCKS and bool(device.supported_sm_clocks_mhz())


def refuse_if_locked(device: Device, clocks_mhz: Sequence[int], throttle: Throttle) -> None:
    """Judge what was seen of a board under load: its clocks, and all reasons for throttling.

    Raises:
        ClockControlError: it ran below its highest clock, and nothing explains that but a lock.
    """
    highest_mhz = device.supported_sm_clocks_mhz()[0]
    if not clocks_mhz or median(clocks_mhz) >= NEAR * highest_mhz or throttle & EXPLAINED:
        return
    raise ClockControlError(
        f"{device.identity.name} runs at {median(clocks_mhz):.0f} MHz under load, though it supports "
        f"{highest_mhz} MHz and nothing throttles it: perhaps your site locked its clocks, which this would take "
        "off at the end; give --site-lock-mhz LOW:HIGH to have that lock put back, or --site-lock-mhz none where "
        "there is none (application clocks stay as they are)"
    )


class WithSiteLock:
    """A board whose clocks are found locked, because a user says so."""

    def __init__(self, board: Device, lock_mhz: tuple[int, int]) -> None:
        self._board, self._lock_mhz = board, lock_mhz

    @property
    def identity(self) -> Identity:
        """The board's."""
        return self._board.identity

    @property
    def capabilities(self) -> Capabilities:
        """The board's."""
        return self._board.capabilities

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """The board's."""
        return self._board.supported_sm_clocks_mhz()

    def state(self) -> State:
        """The board's."""
        return self._board.state()

    def energy_j(self) -> float | Absent:
        """The board's."""
        return self._board.energy_j()

    def power_w(self) -> float | Absent:
        """The board's."""
        return self._board.power_w()

    def find_clocks(self) -> FoundClocks:
        """The lock that the user named."""
        found = self._board.find_clocks()
        if found.knob is not ClockKnob.LOCKED_CLOCKS:
            raise ClockControlError(
                "--site-lock-mhz is for locked clocks; this board's clocks are application clocks"
            )
        return FoundClocks(knob=found.knob, locked_mhz=self._lock_mhz)

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        """The board's."""
        self._board.lock_sm_clock(sm_clock_mhz)

    def restore_clocks(self, found: FoundClocks) -> None:
        """The board's."""
        self._board.restore_clocks(found)

    def close(self) -> None:
        """The board's."""
        self._board.close()
