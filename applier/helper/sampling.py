"""Readings of the board while an iteration is recorded: its clock, why it is throttled, its energy at any moment.

The energy counter advances in ticks of 10 to 100 ms, so its value at an iteration's boundary is interpolated
between the ticks around it. Where there is no counter, power is integrated.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from statistics import median_low

from energyopt.applier.devices.interface import Absent, Device

INTERVAL_NS = 20_000_000
TAIL_NS = 300_000_000
"""How long beyond an iteration's end readings go on, so that a tick lies beyond it."""

_MOST = 200_000  # readings kept: over an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the board; None where it does not say."""

    at_ns: int
    sm_clock_mhz: int | None
    throttle: int | None
    energy_j: float | None
    power_w: float | None


class Sampler:
    """Looks at a board every 20 ms while it is told to."""

    def __init__(self, device: Device | None, energy_source: str | None) -> None:
        self._device = device
        self._source = energy_source
        self._samples: list[Sample] = []
        self._next_ns = 0

    def look(self, now_ns: int) -> None:
        """Take a reading if it is time for one.

        Raises:
            DeviceError: the board is gone.
        """
        if self._device is None or now_ns < self._next_ns or len(self._samples) >= _MOST:
            return
        state = self._device.state()
        self._samples.append(
            Sample(
                at_ns=now_ns,
                sm_clock_mhz=None if isinstance(state.sm_clock_mhz, Absent) else state.sm_clock_mhz,
                throttle=None if isinstance(state.throttle, Absent) else int(state.throttle),
                energy_j=_number(self._device.energy_j()) if self._source == "counter" else None,
                power_w=_number(self._device.power_w()) if self._source == "power_integral" else None,
            )
        )
        self._next_ns = now_ns + INTERVAL_NS

    def forget_before(self, at_ns: int) -> None:
        """Readings before a moment are needed no more."""
        self._samples = [one for one in self._samples if one.at_ns >= at_ns]

    def clock_mhz(self, start_ns: int, end_ns: int) -> int | None:
        """The median clock seen in a span; None where nothing was seen."""
        seen = [one.sm_clock_mhz for one in self._within(start_ns, end_ns) if one.sm_clock_mhz is not None]
        return median_low(seen) if seen else None

    def throttle(self, start_ns: int, end_ns: int) -> int | None:
        """All reasons seen in a span."""
        seen = [one.throttle for one in self._within(start_ns, end_ns) if one.throttle is not None]
        return reduce(or_, seen) if seen else None

    def energy_j(self, start_ns: int, end_ns: int) -> float | None:
        """What the board used in a span, J; None where the readings do not tell."""
        curve = self._counter() if self._source == "counter" else self._integral()
        start_j, end_j = _at(curve, start_ns), _at(curve, end_ns)
        if start_j is None or end_j is None or end_j < start_j:
            return None
        return end_j - start_j

    def _within(self, start_ns: int, end_ns: int) -> Sequence[Sample]:
        first = bisect_left(self._samples, start_ns, key=lambda one: one.at_ns)
        last = bisect_left(self._samples, end_ns, key=lambda one: one.at_ns)
        return self._samples[first:last]

    def _counter(self) -> list[tuple[int, float]]:
        """The counter's ticks: where it was first seen at a new value. A restarted counter gives nothing."""
        read = [(one.at_ns, one.energy_j) for one in self._samples if one.energy_j is not None]
        if any(after[1] < before[1] for before, after in pairwise(read)):
            return []
        return [after for before, after in pairwise(read) if after[1] > before[1]]

    def _integral(self) -> list[tuple[int, float]]:
        """Energy since the first reading, by the trapezoidal rule."""
        read = [(one.at_ns, one.power_w) for one in self._samples if one.power_w is not None]
        curve, total_j = [], 0.0
        for (start_ns, start_w), (end_ns, end_w) in pairwise(read):
            total_j += (start_w + end_w) / 2 * (end_ns - start_ns) * 1e-9
            curve.append((end_ns, total_j))
        return [(read[0][0], 0.0), *curve] if read else []


def _number(value: float | Absent) -> float | None:
    return None if isinstance(value, Absent) else value


def _at(curve: list[tuple[int, float]], at_ns: int) -> float | None:
    """A curve's value by linear interpolation, or extrapolation from the nearest piece over at most TAIL_NS."""
    if len(curve) < 2 or not curve[0][0] - TAIL_NS <= at_ns <= curve[-1][0] + TAIL_NS:
        return None
    index = min(max(bisect_left(curve, at_ns, key=lambda one: one[0]), 1), len(curve) - 1)
    (left_ns, left_j), (right_ns, right_j) = curve[index - 1], curve[index]
    return left_j + (right_j - left_j) * (at_ns - left_ns) / (right_ns - left_ns)
