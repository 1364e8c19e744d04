"""A board that tells nothing, for a rank that only takes part in what other ranks measure."""

from energyopt.applier.devices.interface import Absent, Capabilities, FoundClocks, Identity, State
from energyopt.schemas.errors import ClockControlError


class BlindDevice:
    """Implements `Device`: every reading is absent, for the reason given."""

    def __init__(self, reason: str) -> None:
        self._absent = Absent(reason)
        self.identity = Identity(name="unknown", uuid="none", kind="none")
        self.capabilities = Capabilities(
            energy_counter=reason,
            power=reason,
            sm_clock=reason,
            throttle_reasons=reason,
            temperature=reason,
            supported_clocks=reason,
            set_clocks=reason,
            knob=None,
        )

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """None are known."""
        return ()

    def state(self) -> State:
        """Nothing is known."""
        return State(sm_clock_mhz=self._absent, temperature_c=self._absent, throttle=self._absent)

    def energy_j(self) -> Absent:
        """Nothing is known."""
        return self._absent

    def power_w(self) -> Absent:
        """Nothing is known."""
        return self._absent

    def find_clocks(self) -> FoundClocks:
        """Refuse."""
        raise ClockControlError(self._absent.reason)

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        """Refuse."""
        raise ClockControlError(f"{sm_clock_mhz} MHz cannot be set: {self._absent.reason}")

    def restore_clocks(self, found: FoundClocks) -> None:
        """Nothing was set."""

    def close(self) -> None:
        """Nothing is held."""
