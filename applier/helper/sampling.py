"""Readings of the board while an iteration is recorded: its clock, why it is throttled, its energy at any moment.

The energy counter advances in ticks of 10 to 100 ms, so its value at an iteration's boundary is interpolated
between the ticks around it. Readings therefore begin before a recorded iteration and end after it; where they do
not (the first iteration), the boundary is extrapolated to over one tick, and beyond that nothing is told. A tick is
seen late by less than the time between two readings, at the start and at the end alike. Where there is no counter,
power is integrated.
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
"""How long before an iteration readings begin and after it go on, so that ticks lie on both sides."""

_SLOPE_NS = 300_000_000  # over how much the power is taken that extrapolation needs
_LATE_NS = 2 * INTERVAL_NS  # a tick is seen late by up to a reading, which may be late itself
_LONGEST_GAP_NS = 1_000_000_000  # without readings, beyond which integrated power would be a guess
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

    @property
    def next_ns(self) -> int | None:
        """When it is time for the next reading; None where there is nothing to read."""
        return None if self._device is None else self._next_ns

    def look(self, now_ns: int) -> None:
        """Take a reading if it is time for one.

        Raises:
            DeviceError: the board is gone.
        """
        if self._device is None or now_ns < self._next_ns or len(self._samples) >= _MOST:
            return
        self._next_ns = now_ns + INTERVAL_NS
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
        curve = self._counter() if self._source == "counter" else self._integral(start_ns, end_ns)
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

    def _integral(self, start_ns: int, end_ns: int) -> list[tuple[int, float]]:
        """Energy since the first reading, by the trapezoidal rule; nothing if readings are missing in the span."""
        read = [(one.at_ns, one.power_w) for one in self._samples if one.power_w is not None]
        curve, total_j = [(at_ns, 0.0) for at_ns, _ in read[:1]], 0.0
        for (from_ns, from_w), (to_ns, to_w) in pairwise(read):
            if to_ns - from_ns > _LONGEST_GAP_NS and from_ns < end_ns and to_ns > start_ns:
                return []
            total_j += (from_w + to_w) / 2 * (to_ns - from_ns) * 1e-9
            curve.append((to_ns, total_j))
        return curve


def _number(value: float | Absent) -> float | None:
    return None if isinstance(value, Absent) else value


def _at(curve: list[tuple[int, float]], at_ns: int) -> float | None:
    """A curve's value by linear interpolation, or extrapolation from the nearest part over at most one tick."""
    if len(curve) < 2:
        return None
    tick_ns = median_low(after - before for (before, _), (after, _) in pairwise(curve)) + _LATE_NS
    if not curve[0][0] - tick_ns <= at_ns <= curve[-1][0] + tick_ns:
        return None
    left, right = _around(curve, at_ns)
    (left_ns, left_j), (right_ns, right_j) = curve[left], curve[right]
    near_ns, near_j = curve[right] if at_ns > right_ns else curve[left]
    return near_j + (right_j - left_j) * (at_ns - near_ns) / (right_ns - left_ns)


def _around(curve: list[tuple[int, float]], at_ns: int) -> tuple[int, int]:
    """The points on both sides; beyond an end, that end and a point well away from it, for a steady slope."""
    last = len(curve) - 1
    if at_ns < curve[0][0]:
        return 0, min(max(_first_from(curve, curve[0][0] + _SLOPE_NS), 1), last)
    if at_ns > curve[-1][0]:
        return max(min(_first_from(curve, curve[-1][0] - _SLOPE_NS), last - 1), 0), last
    right = max(_first_from(curve, at_ns), 1)
    return right - 1, right


def _first_from(curve: list[tuple[int, float]], at_ns: int) -> int:
    return bisect_left(curve, at_ns, key=lambda one: one[0])
