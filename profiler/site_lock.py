"""A lock that the site had set before us: NVML can set locks and take them off, and cannot read them.

So before the first set the board is watched under load. One that stays below its highest clock with nothing to
explain it is perhaps locked, and giving clocks back would take that lock off: the user then says what there was.
"""

import math
import re
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
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.samples import Recorder
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import ClockControlError, RequestError

LOOK_S = 0.3
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


def refuse_unknown_lock(bench: Bench, kernel: Kernel) -> None:
    """Run a prepared kernel, one that no power cap slows, on the board as it is; nothing is set.

    A board that idles, since the kernels run elsewhere, cannot be judged.

    Raises:
        ClockControlError: it runs below its highest clock, and nothing explains that but a lock.
    """
    supported = bench.device.supported_sm_clocks_mhz()
    if bench.device.capabilities.knob is not ClockKnob.LOCKED_CLOCKS or not supported:
        return
    recorder = Recorder(
        bench.device, fine_s=0.02, coarse_s=0.02, fine_from_s=math.inf, counter=False, always_fine=True
    )
    repeats = max(1, math.ceil(LOOK_S / run_time_s(bench, kernel)))
    bench.run(kernel, repeats)  # the board comes out of idle unseen
    bench.run(kernel, repeats, recorder)
    seen = recorder.samples
    clocks = seen.sm_clock_mhz
    if not clocks or median(clocks) >= NEAR * supported[0] or (seen.throttle or Throttle(0)) & EXPLAINED:
        return
    raise ClockControlError(
        f"{bench.device.identity.name} runs at {median(clocks):.0f} MHz under load, though it supports "
        f"{supported[0]} MHz and nothing throttles it: perhaps your site locked its clocks, which this would take "
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
