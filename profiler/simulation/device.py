"""The driver's view of a simulated board: what NVML would tell and accept."""

from energyopt.applier.devices.interface import (
    Capabilities,
    ClockKnob,
    FoundClocks,
    Identity,
    State,
)
from energyopt.profiler.simulation.board import Board
from energyopt.schemas.errors import ClockControlError


class SimulatedDevice:
    """A board on which everything works and everybody may set clocks. Implements `Device`."""

    def __init__(self, board: Board, identity: Identity) -> None:
        self._board = board
        self._identity = identity
        self._lowest_first = board.spec.clocks.supported_mhz()

    @property
    def identity(self) -> Identity:
        """Which board is simulated."""
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        """Everything works."""
        return Capabilities(
            energy_counter=None,
            power=None,
            sm_clock=None,
            throttle_reasons=None,
            temperature=None,
            supported_clocks=None,
            set_clocks=None,
            knob=ClockKnob.LOCKED_CLOCKS,
        )

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """The clocks that can be asked for, highest first."""
        return self._lowest_first[::-1]

    def state(self) -> State:
        """Clock, temperature and throttle reasons now."""
        board = self._board
        return State(
            sm_clock_mhz=board.sm_clock_mhz,
            temperature_c=float(round(board.temperature_c)),  # NVML gives whole degrees
            throttle=board.throttle,
        )

    def energy_j(self) -> float:
        """The energy counter at its last tick, J."""
        return self._board.counter_j

    def power_w(self) -> float:
        """What the power sensor says, W, in the meaning that the identity gives."""
        return self._board.read_power_w()

    def find_clocks(self) -> FoundClocks:
        """Which lock was set, if any."""
        locked = self._board.locked
        if locked is None:
            return FoundClocks(knob=ClockKnob.LOCKED_CLOCKS)
        clock = self._lowest_first[locked]
        return FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(clock, clock))

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        """Ask for one of the supported clocks; it holds after the board's latency.

        Raises:
            ClockControlError: it is not one of them.
        """
        self._board.request_clock(self._index(sm_clock_mhz))

    def restore_clocks(self, found: FoundClocks) -> None:
        """Lock what was locked before, or nothing.

        Raises:
            ClockControlError: this was not found on a board like this one.
        """
        self._board.request_clock(None if found.locked_mhz is None else self._index(found.locked_mhz[1]))

    def close(self) -> None:
        """Nothing to let go of."""

    def _index(self, sm_clock_mhz: int) -> int:
        clocks = self._board.spec.clocks
        if sm_clock_mhz not in self._lowest_first:
            raise ClockControlError(
                f"{self._identity.name} has no SM clock of {sm_clock_mhz} MHz; it has {clocks.lowest_mhz} to "
                f"{clocks.highest_mhz} MHz in steps of {clocks.step_mhz}"
            )
        return self._lowest_first.index(sm_clock_mhz)
