"""A simulated board in virtual time: its clock, temperature, energy and sensors.

Between two events (a poll, a change of the clock that lands, the next cell of disturbance, the end of the work)
power and speed are constant, so that energy and temperature follow in closed form.
"""

import math
from collections import deque

from energyopt.applier.devices.interface import PowerMeaning, Throttle
from energyopt.profiler.simulation.costs import Costs, operate, standing_costs
from energyopt.profiler.simulation.disturbance import CELL_S, Wander
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.thermal import later_c, leakage_factor, steady_c, sustainable_w

_AVERAGE_S = 1.0  # of the power reading that NVML calls an average


class Board:
    """One board, switched on at time 0 after a long rest.

    now_s: virtual time; it passes only in `advance`.
    energy_j: all that was drawn so far, exactly; `counter_j` is what the driver tells.
    temperature_c: of the chip.
    locked: index of the clock asked for among the supported ones, None where the board may choose.
    """

    def __init__(self, spec: GpuSpec, limit_w: float, wander: Wander) -> None:
        self.spec = spec
        self.now_s = 0.0
        self.energy_j = 0.0
        self.locked: int | None = None
        self._limit_w = limit_w
        self._wander = wander
        self._highest = len(spec.clocks.supported_mhz()) - 1
        self._idle = standing_costs(spec, spec.power.idle_share)
        self._load = self._idle
        self._speed = 1.0
        self._held: int | None = None  # the lock that has taken effect
        self._pending: deque[tuple[float, int | None]] = deque()
        self._cell = 0
        self._factor = wander.next_cell()
        self._tick = 0
        self._counter_j = 0.0
        self._history: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self.temperature_c = steady_c(spec.thermal, self._idle.power_w[0])
        self._operate()

    @property
    def sm_clock_mhz(self) -> int:
        """The clock that holds; the mean of two steps where power limits it."""
        return round(self._operation.sm_clock_mhz)

    @property
    def throttle(self) -> Throttle:
        """Why the clock is not the one asked for."""
        found = Throttle.GPU_IDLE if self._load is self._idle else Throttle(0)
        if self._operation.capped:
            found |= Throttle.SW_THERMAL if self._too_hot() else Throttle.SW_POWER_CAP
        return found

    @property
    def counter_j(self) -> float:
        """The energy counter: what was drawn until its last tick, in whole millijoules."""
        return math.floor(self._counter_j * 1e3) / 1e3

    def read_power_w(self) -> float:
        """What the power sensor says: the power now, or its mean over the last second."""
        averages = self.spec.sensors.power_meaning is PowerMeaning.AVERAGE_1S
        power_w = self._average_w() if averages else self._power_w
        return power_w * self._wander.next_reading()

    def request_clock(self, index: int | None) -> None:
        """Lock the clock with this index, or let the board choose again; it takes effect after a while."""
        self.locked = index
        lands_s = self.now_s + self._wander.next_latency_s(self.spec.clocks.latency_s)
        if self._pending:  # requests take effect in the order in which they were made
            lands_s = max(lands_s, self._pending[-1][0])
        self._pending.append((lands_s, index))

    def take_load(self, load: Costs) -> None:
        """Start to run something, at a speed that differs a little from run to run."""
        self._speed = self._wander.next_run()
        self._load = load
        self._operate()

    def rest(self) -> None:
        """Go idle."""
        self._load = self._idle
        self._operate()

    def advance(self, until_s: float, runs: float = math.inf) -> float:
        """Let time pass until then, or until so many runs of the load are done; return how many are left."""
        while self.now_s < until_s and runs > 0:
            end_s, runs = self._segment_end(until_s, runs)
            self._pass(end_s)
        return runs

    def _segment_end(self, until_s: float, runs: float) -> tuple[float, float]:
        """When something changes next, and how many runs are left then."""
        end_s = min(until_s, (self._cell + 1) * CELL_S)
        if self._pending:
            end_s = min(end_s, self._pending[0][0])
        rate = self._operation.runs_per_s * self._speed
        if rate == 0.0:
            return end_s, runs
        done_s = self.now_s + runs / rate
        if done_s <= end_s:
            return done_s, 0.0
        return end_s, max(0.0, runs - rate * (end_s - self.now_s))

    def _pass(self, end_s: float) -> None:
        """Go to the end of a segment, then do what is due there."""
        power_w, duration_s = self._power_w, end_s - self.now_s
        self._count(end_s, power_w)
        self.energy_j += power_w * duration_s
        self.temperature_c = later_c(self.spec.thermal, self.temperature_c, power_w, duration_s)
        self.now_s = end_s
        self._remember()
        while self._pending and self._pending[0][0] <= end_s:
            self._held = self._pending.popleft()[1]
        while end_s >= (self._cell + 1) * CELL_S:
            self._cell += 1
            self._factor = self._wander.next_cell()
        self._operate()

    def _count(self, end_s: float, power_w: float) -> None:
        """Bring the counter to its last tick in the segment, if there is one."""
        tick_s = self.spec.sensors.counter_tick_s
        last = math.floor(end_s / tick_s)
        if last > self._tick:
            self._tick = last
            self._counter_j = self.energy_j + power_w * (last * tick_s - self.now_s)

    def _operate(self) -> None:
        """Settle how the load runs from now on; one that draws more by chance is capped at a lower clock."""
        asked = self._held
        if asked is None:
            asked = 0 if self._load is self._idle else self._highest
        limit_w = self._limit_w
        if self._too_hot():
            limit_w = min(limit_w, sustainable_w(self.spec.thermal))
        warmth = leakage_factor(self.temperature_c)
        self._operation = operate(self._load, asked, limit_w / self._factor, warmth)
        self._power_w = self._operation.power_w * self._factor

    def _too_hot(self) -> bool:
        return self.temperature_c >= self.spec.thermal.limit_c

    def _remember(self) -> None:
        """Keep the last second's energies, and one point before it."""
        self._history.append((self.now_s, self.energy_j))
        while self._history[1][0] <= self.now_s - _AVERAGE_S:
            self._history.popleft()

    def _average_w(self) -> float:
        if self.now_s == 0.0:
            return self._power_w
        (before_s, before_j), (after_s, after_j) = self._history[0], self._history[1]
        start_s = max(0.0, self.now_s - _AVERAGE_S)
        start_j = before_j + (after_j - before_j) * (start_s - before_s) / (after_s - before_s)
        return (self.energy_j - start_j) / (self.now_s - start_s)
