"""What was seen of a board while something ran: looks at it, taken when they tell most.

The energy counter advances in ticks, so its value means something only at a tick's edge. The recorder looks often
until it has seen a first edge and again near the expected end, and in between just often enough for the clock, the
throttle reasons and the power.
"""

from dataclasses import dataclass, field

from energyopt.applier.devices.interface import Absent, Device, Throttle


@dataclass(slots=True)
class Samples:
    """Readings in the order they were taken; times are the bench's, in seconds.

    energy_j holds (time, counter) pairs, power_w (time, power) pairs.
    lost: readings that the driver did not give, by reason.
    """

    energy_j: list[tuple[float, float]] = field(default_factory=list)
    power_w: list[tuple[float, float]] = field(default_factory=list)
    sm_clock_mhz: list[int] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)
    throttle: Throttle | None = None
    lost: dict[str, int] = field(default_factory=dict)


class Recorder:
    """A poll function that fills `samples`; times in s.

    fine_s, coarse_s: how long until the next look, at most twice as often as the driver can answer: see `Poller`.
    fine_from_s: from when on the last edge is sought.
    always_fine: look every `fine_s` throughout, whatever else is said.
    """

    def __init__(
        self,
        device: Device,
        *,
        fine_s: float,
        coarse_s: float,
        fine_from_s: float,
        counter: bool = True,
        always_fine: bool = False,
    ) -> None:
        self.samples = Samples()
        self._device = device
        self._fine_s, self._coarse_s, self._fine_from_s = fine_s, coarse_s, fine_from_s
        self._counter = counter
        self._edge_wanted = counter or always_fine
        self._always_fine = always_fine
        self._state_due_s = float("-inf")

    def __call__(self, now_s: float) -> float:
        """Look at the board; return when to look again."""
        if self._counter:
            self._look_at_counter(now_s)
        if now_s >= self._state_due_s or self._always_fine:
            self._look_at_state(now_s)
            self._state_due_s = now_s + self._coarse_s
        if self._always_fine or (self._counter and (self._edge_wanted or now_s >= self._fine_from_s)):
            return now_s + self._fine_s
        if not self._counter:
            return now_s + self._coarse_s
        return max(now_s + self._fine_s, min(now_s + self._coarse_s, self._fine_from_s))

    def _look_at_counter(self, now_s: float) -> None:
        reading = self._device.energy_j()
        if isinstance(reading, Absent):
            self._lose(reading)
            return
        readings = self.samples.energy_j
        if readings and reading != readings[-1][1]:
            self._edge_wanted = False
        readings.append((now_s, reading))

    def _look_at_state(self, now_s: float) -> None:
        power, state = self._device.power_w(), self._device.state()
        if isinstance(power, Absent):
            self._lose(power)
        else:
            self.samples.power_w.append((now_s, power))
        if isinstance(state.sm_clock_mhz, Absent):
            self._lose(state.sm_clock_mhz)
        else:
            self.samples.sm_clock_mhz.append(state.sm_clock_mhz)
        if not isinstance(state.temperature_c, Absent):
            self.samples.temperature_c.append(state.temperature_c)
        if not isinstance(state.throttle, Absent):
            self.samples.throttle = (self.samples.throttle or Throttle(0)) | state.throttle

    def _lose(self, absent: Absent) -> None:
        self.samples.lost[absent.reason] = self.samples.lost.get(absent.reason, 0) + 1
