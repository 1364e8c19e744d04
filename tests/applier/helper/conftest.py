"""A board in virtual time."""

from collections.abc import Callable
from math import floor
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, State
from energyopt.schemas.errors import DeviceError


class VirtualBoard:
    """Draws `power_w(t)` at `now_ns`; its counter shows what it was at the last tick's edge.

    counter, power: whether it has them. lost: whether it has fallen off the bus. looks: how often it was read.
    """

    def __init__(self, power_w: float | Callable[[float], float] = 300.0, tick_s: float = 0.02) -> None:
        self._power_w = power_w if callable(power_w) else (lambda _: power_w)
        self._tick_s = tick_s
        self.now_ns = 0
        self.counter = self.power = True
        self.restarted_s = 0.0
        self.lost = False
        self.looks = 0
        self.sm_clock_mhz: int | Absent = 1200
        self.throttle: Any = 0

    def state(self) -> State:
        self.looks += 1
        if self.lost:
            raise DeviceError("GPU is lost")
        return State(
            sm_clock_mhz=self.sm_clock_mhz, temperature_c=Absent(reason="no sensor"), throttle=self.throttle
        )

    def energy_j(self) -> float | Absent:
        if not self.counter:
            return Absent(reason="not supported")
        now_s = self.now_ns * 1e-9
        edge_s = floor(now_s / self._tick_s) * self._tick_s
        return self.used_j(self.restarted_s, edge_s) if edge_s > self.restarted_s else 0.0

    def power_w(self) -> float | Absent:
        return self._power_w(self.now_ns * 1e-9) if self.power else Absent(reason="not supported")

    def used_j(self, start_s: float, end_s: float, steps: int = 200) -> float:
        """The integral of power by the midpoint rule."""
        width_s = (end_s - start_s) / steps
        return sum(self._power_w(start_s + (k + 0.5) * width_s) for k in range(steps)) * width_s


@pytest.fixture
def virtual_board() -> type[VirtualBoard]:
    return VirtualBoard
