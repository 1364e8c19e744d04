"""A bench in the virtual time of a simulated GPU: thousands of measuring windows in seconds."""

import difflib

from energyopt.applier.devices.interface import Identity
from energyopt.profiler.benches.interface import Poll, titled
from energyopt.profiler.simulation.board import Board
from energyopt.profiler.simulation.costs import Costs, Operation, kernel_costs, operate, standing_costs
from energyopt.profiler.simulation.device import SimulatedDevice
from energyopt.profiler.simulation.disturbance import Wander
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.thermal import leakage_factor
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import DeviceError, WorkloadError

MOST_OF_LIMIT = 1.5
_POLL_S = 1e-4  # a poll that wants to come back at once comes back after this


def open_simulated_bench(
    name: str, *, power_limit_w: float | None = None, seed: int = 0, noise: bool = True, number: int = 0
) -> "SimulatedBench":
    """A bench on one of the simulated GPUs, idle and cold, at time 0.

    power_limit_w: the board's limit, W; None for the one it is sold with.
    seed: two benches with the same seed behave the same under the same calls.
    noise: whether power, speed, readings and latencies vary by chance.
    number: tells the boards of one job apart: their UUIDs differ.

    Raises:
        DeviceError: there is no such GPU, or the limit is not positive.
    """
    if name not in GPUS:
        begun = [one for one in GPUS if name and one.startswith(name)]
        close = begun or difflib.get_close_matches(name, GPUS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}? " if close else ""
        raise DeviceError(f"no simulated GPU is called {name!r}: {hint}there are {', '.join(sorted(GPUS))}")
    spec = GPUS[name]
    limit_w = spec.power.limit_w if power_limit_w is None else power_limit_w
    if not spec.power.board_w < limit_w <= MOST_OF_LIMIT * spec.power.limit_w:
        raise DeviceError(
            f"a power limit of {limit_w:g} W is impossible for {spec.name}: give one between its "
            f"{spec.power.board_w:g} W at rest and {MOST_OF_LIMIT:g} times its usual {spec.power.limit_w:g} W"
        )
    uuid = f"SIM-{name}" + (f"-{number}" if number else "")
    return SimulatedBench(spec, uuid=uuid, limit_w=limit_w, wander=Wander(seed, noise))


class SimulatedBench:
    """Implements `Bench`; see there. `true_cost` and `true_wait_power_w` tell what a measurement should find."""

    def __init__(self, spec: GpuSpec, *, uuid: str, limit_w: float, wander: Wander) -> None:
        self._spec = spec
        self._limit_w = limit_w
        self._board = Board(spec, limit_w, wander)
        self._waiting = standing_costs(spec, spec.power.wait_share)
        self._idling = standing_costs(spec, spec.power.idle_share)
        self._costs: dict[Kernel, Costs] = {}
        self._device = SimulatedDevice(
            self._board,
            Identity(
                name=f"{spec.name} (simulated)",
                uuid=uuid,
                kind="simulated",
                power_limit_w=limit_w,
                memory_clock_mhz=spec.memory_clock_mhz,
                power_meaning=spec.sensors.power_meaning,
            ),
        )

    @property
    def device(self) -> SimulatedDevice:
        """The simulated board."""
        return self._device

    @property
    def last_idle_share(self) -> float:
        """A simulated GPU never waits for its host."""
        return 0.0

    def now_s(self) -> float:
        """Virtual time since the board was switched on."""
        return self._board.now_s

    def sleep(self, duration_s: float, poll: Poll | None = None) -> None:
        """Let virtual time pass with the board idle."""
        self._spend(duration_s, poll)

    def prepare(self, kernel: Kernel) -> None:
        """Compute what the kernel costs at each clock.

        Raises:
            WorkloadError: this GPU has no matrix units for the kernel's data type, or too little memory.
        """
        if kernel.memory_bytes > self._spec.memory_bytes:
            raise WorkloadError(
                f"{titled(kernel)} does not fit: it reads and writes {kernel.memory_bytes / 1e9:.4g} GB and "
                f"{self._spec.name} has {self._spec.memory_bytes / 1e9:.0f} GB; are the sizes right?"
            )
        self._costs_of(kernel)

    def run(self, kernel: Kernel, repeats: int, poll: Poll | None = None) -> float:
        """Run the kernel back to back in virtual time; return the seconds that took.

        Raises:
            WorkloadError: fewer than one repeat is asked for, or the kernel cannot run here.
        """
        if repeats < 1:
            raise WorkloadError(f"{titled(kernel)} cannot run {repeats} times; ask for at least 1")
        board = self._board
        started_s = board.now_s
        board.take_load(self._costs_of(kernel))
        left = float(repeats)
        wake_s = _next_poll(poll, started_s)
        while (left := board.advance(wake_s, left)) > 0:
            wake_s = _next_poll(poll, board.now_s)
        board.rest()
        return board.now_s - started_s

    def wait(self, duration_s: float, poll: Poll | None = None) -> None:
        """Have the board spin in a blocked receive."""
        self._board.take_load(self._waiting)
        self._spend(duration_s, poll)
        self._board.rest()

    def close(self) -> None:
        """Nothing is held."""

    def true_cost(self, kernel: Kernel, sm_clock_mhz: int, temperature_c: float) -> tuple[float, float]:
        """Expected time (s) and energy (J) of one run among many, with what the power limit does to it.

        Raises:
            WorkloadError: the kernel cannot run here.
            ValueError: the clock is not one of the supported ones.
        """
        found = self._true(self._costs_of(kernel), sm_clock_mhz, temperature_c)
        return 1 / found.runs_per_s, found.power_w / found.runs_per_s

    def true_wait_power_w(self, sm_clock_mhz: int, temperature_c: float) -> float:
        """Expected power while waiting for a peer, W."""
        return self._true(self._waiting, sm_clock_mhz, temperature_c).power_w

    def true_idle_power_w(self, sm_clock_mhz: int, temperature_c: float) -> float:
        """Expected power of an idle board whose clock is locked, W."""
        return self._true(self._idling, sm_clock_mhz, temperature_c).power_w

    def _true(self, costs: Costs, sm_clock_mhz: int, temperature_c: float) -> Operation:
        asked = self._spec.clocks.supported_mhz().index(sm_clock_mhz)
        return operate(costs, asked, self._limit_w, leakage_factor(temperature_c))

    def _spend(self, duration_s: float, poll: Poll | None) -> None:
        until_s = self._board.now_s + duration_s
        wake_s = _next_poll(poll, self._board.now_s)
        while self._board.now_s < until_s:
            self._board.advance(min(until_s, wake_s))
            if self._board.now_s >= wake_s:
                wake_s = _next_poll(poll, self._board.now_s)

    def _costs_of(self, kernel: Kernel) -> Costs:
        if kernel not in self._costs:
            self._costs[kernel] = kernel_costs(self._spec, kernel)
        return self._costs[kernel]


def _next_poll(poll: Poll | None, now_s: float) -> float:
    return float("inf") if poll is None else max(poll(now_s), now_s + _POLL_S)
