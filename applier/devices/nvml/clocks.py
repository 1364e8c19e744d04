"""Setting the SM clock and giving it back, touching one knob alone.

What can be known of the state before the first set: application clocks have getters, for the setting and for its
default. Locked clocks have none (NVML of driver 610 sets and resets them and no more), and the clock that a board
runs at does not tell a lock from a power cap, an idle state or a boost limit. So a lock that the site had set is
not seen: nothing is recorded, and giving back takes every lock off. `FoundClocks.locked_mhz` is honoured where
somebody who knows the site's lock fills it in.
"""

from energyopt.applier.devices.interface import Absent, Capabilities, ClockKnob, FoundClocks, Identity
from energyopt.applier.devices.nvml import remedies
from energyopt.applier.devices.nvml.driver import FATAL, Board, CallFailedError, Code
from energyopt.schemas.errors import ClockControlError, DeviceError

GRAPHICS, MEMORY = 0, 2  # nvmlClockType_t
WAYS_OUT: dict[int, str] = {
    Code.NO_PERMISSION: remedies.RIGHTS,
    Code.NOT_SUPPORTED: remedies.NO_KNOB,
    Code.FUNCTION_NOT_FOUND: remedies.NO_KNOB,
}


class Clocks:
    """The clock knob of one board."""

    def __init__(self, board: Board, identity: Identity, capabilities: Capabilities) -> None:
        self._board = board
        self._label = f"{identity.name} ({identity.uuid})"
        self._capabilities = capabilities

    def find(self) -> FoundClocks:
        """How the knob stands.

        Raises:
            ClockControlError: clocks cannot be set here, or cannot be read before they are.
        """
        knob = self._knob()
        if knob is ClockKnob.LOCKED_CLOCKS:
            return FoundClocks(knob=knob)
        now, usual = self._application_clocks_mhz(), self._read_application_clocks("Default")
        changed = now != usual  # also where the default is not known: then what is set can be set again
        return FoundClocks(
            knob=knob, application_mhz=now[1] if changed else None, application_memory_mhz=now[0]
        )

    def lock(self, sm_clock_mhz: int, supported_mhz: tuple[int, ...]) -> None:
        """Ask for one of the supported clocks, or for any where none are known.

        Raises:
            ClockControlError: not a supported clock, or refused.
        """
        if supported_mhz and sm_clock_mhz not in supported_mhz:
            nearest = min(supported_mhz, key=lambda clock: abs(clock - sm_clock_mhz))
            raise ClockControlError(
                f"{self._label} has no clock of {sm_clock_mhz} MHz; the nearest is {nearest} MHz"
            )
        if self._knob() is ClockKnob.LOCKED_CLOCKS:
            self._set("nvmlDeviceSetGpuLockedClocks", sm_clock_mhz, sm_clock_mhz)
        else:
            self._set("nvmlDeviceSetApplicationsClocks", self._application_clocks_mhz()[0], sm_clock_mhz)

    def restore(self, found: FoundClocks) -> None:
        """Put the knob back as it was found.

        Raises:
            ClockControlError: refused.
        """
        if found.knob is ClockKnob.LOCKED_CLOCKS:
            if found.locked_mhz is None:
                self._set("nvmlDeviceResetGpuLockedClocks")
            else:
                self._set("nvmlDeviceSetGpuLockedClocks", *found.locked_mhz)
        elif found.application_mhz is None:
            self._set("nvmlDeviceResetApplicationsClocks")
        else:
            self._set("nvmlDeviceSetApplicationsClocks", found.application_memory_mhz, found.application_mhz)

    def _knob(self) -> ClockKnob:
        if self._capabilities.knob is None:
            raise ClockControlError(
                f"{self._label}: clocks cannot be set: {self._capabilities.set_clocks}; "
                f"{self._capabilities.remedies['set_clocks']}"
            )
        return self._capabilities.knob

    def _read_application_clocks(self, which: str = "") -> tuple[int, int] | Absent:
        """Memory and graphics clock, MHz, of the setting or of its default."""
        memory, graphics = (
            self._board.read(f"nvmlDeviceGet{which}ApplicationsClock", kind) for kind in (MEMORY, GRAPHICS)
        )
        if isinstance(memory, Absent):
            return memory
        return graphics if isinstance(graphics, Absent) else (memory, graphics)

    def _application_clocks_mhz(self) -> tuple[int, int]:
        clocks = self._read_application_clocks()
        if isinstance(clocks, Absent):
            raise ClockControlError(
                f"{self._label}: application clocks cannot be read, so they could not be given back: "
                f"{clocks.reason}; use --clocks current to measure at the current clock alone"
            )
        return clocks

    def _set(self, name: str, *clocks_mhz: int | None) -> None:
        try:
            self._board.call(name, *clocks_mhz)
        except CallFailedError as error:
            call = f"{self._label}: {name}{clocks_mhz}"
            if error.code in FATAL or (error.code not in WAYS_OUT and name.startswith("nvmlDeviceSet")):
                raise DeviceError(f"{call}: {error}") from error  # it may have been set all the same
            way_out = WAYS_OUT.get(error.code, remedies.OTHER)
            raise ClockControlError(f"{call}: {error}; {way_out}") from error
