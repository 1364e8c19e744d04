"""How long a change of clock takes under load: from the call that asks for it until the board reads it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from energyopt.applier.devices.interface import Absent, Device
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.measurement.window import CLOCK_TOLERANCE, Window
from energyopt.profiler.workloads.interface import Kernel

SWITCHES = 10
LOAD_S = 0.4
SET_AFTER_S = 0.05
LOOK_S = 1e-3
WATCH_S = 0.25


class Locks(Protocol):
    """Who sets clocks, with the journal and the guard behind it."""

    def lock(self, sm_clock_mhz: int) -> None:
        """Set a clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLatency:
    """Seconds from the call to the reading that shows the new clock, over `switches` changes that landed.

    missed: changes that did not show within the time they were given (a power cap, say).
    """

    median_s: float
    longest_s: float
    switches: int
    missed: int


class _Switch:
    """A poll function that sets the second clock of a pair once, and waits until it, not the first, is read."""

    def __init__(
        self, device: Device, locks: Locks, pair_mhz: tuple[int, int], now_s: Callable[[], float]
    ) -> None:
        self.latency_s: float | None = None
        self._device, self._locks, self._target_mhz = device, locks, pair_mhz[1]
        self._now_s = now_s
        self._near_mhz = min(CLOCK_TOLERANCE * pair_mhz[1], abs(pair_mhz[1] - pair_mhz[0]) / 3)
        self._set_at_s, self._asked_s = now_s() + SET_AFTER_S, None

    def __call__(self, now_s: float) -> float:
        if self._asked_s is None:
            if now_s < self._set_at_s:
                return self._set_at_s
            self._asked_s = self._now_s()
            self._locks.lock(self._target_mhz)
        return self._watch(self._asked_s)

    def _watch(self, asked_s: float) -> float:
        """Look again and again while time passes by itself: benches pause after a look for as long as it took."""
        last_s = -math.inf
        while (looked_s := self._now_s()) > last_s and looked_s < asked_s + WATCH_S:
            last_s = looked_s
            clock = self._device.state().sm_clock_mhz
            if not isinstance(clock, Absent) and abs(clock - self._target_mhz) <= self._near_mhz:
                self.latency_s = self._now_s() - asked_s
                return math.inf
        return looked_s + LOOK_S

    _asked_s: float | None


def switch_latency(
    bench: Bench, locks: Locks, kernel: Kernel, clocks_mhz: tuple[int, int]
) -> SwitchLatency | None:
    """Switch between two clocks that can be held while a prepared kernel runs; None if no change ever showed."""
    found: list[float] = []
    locks.lock(clocks_mhz[0])
    run_s = run_time_s(bench, kernel)
    for number in range(SWITCHES):
        pair = clocks_mhz if number % 2 == 0 else clocks_mhz[::-1]
        switch = _Switch(bench.device, locks, pair, bench.now_s)
        bench.run(kernel, max(1, math.ceil(LOAD_S / run_s)), switch)
        if switch.latency_s is not None:
            found.append(switch.latency_s)
    if not found:
        return None
    return SwitchLatency(
        median_s=median(found), longest_s=max(found), switches=len(found), missed=SWITCHES - len(found)
    )


def lightest(kernels: tuple[Kernel, ...]) -> Kernel:
    """A kernel that a power cap does not slow: the one that computes least for what it moves."""
    alone = [kernel for kernel in kernels if kernel.communication is None]
    return min(
        alone, key=lambda kernel: (kernel.matrix, kernel.flops / max(kernel.memory_bytes, 1.0), kernel.name)
    )


def was_held(windows: list[Window], clock: int) -> bool:
    """Whether any window ran at the clock that was asked for."""
    achieved = [one.achieved_sm_clock_mhz for one in windows if one.usable]
    return any(one is not None and abs(one - clock) <= CLOCK_TOLERANCE * clock for one in achieved)
