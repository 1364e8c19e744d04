"""What a GPU can tell and be told, whichever driver or model stands behind it. Standard library alone.

Every reading is a number or `Absent` with a reason: a value that the driver does not give is never 0.
"""

from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Absent:
    """A value that is not there, and why, such as "not supported by this GPU"."""

    reason: str


class PowerMeaning(StrEnum):
    """What the driver's power reading is."""

    INSTANT = "instant"
    AVERAGE_1S = "average_1s"


class Throttle(IntFlag):
    """Why a clock is lower than asked for, with NVML's bits (nvmlClocksEventReason*)."""

    GPU_IDLE = 0x1
    APPLICATIONS_CLOCKS = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL = 0x20
    HW_THERMAL = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCK = 0x100


UNREPRODUCIBLE = Throttle.HW_SLOWDOWN | Throttle.SW_THERMAL | Throttle.HW_THERMAL | Throttle.HW_POWER_BRAKE
"""Throttling that depends on the room and the rack: what is measured under it is not worth keeping."""


class ClockKnob(StrEnum):
    """How the SM clock is set; memory clocks are never touched."""

    LOCKED_CLOCKS = "locked_clocks"
    APPLICATION_CLOCKS = "application_clocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which board this is.

    uuid: the whole UUID, by which the board is opened again, whatever an ordinal means elsewhere.
    scope: `gpu_board`, or `module` where energy and power cover CPU and memory as well.
    mig: readings are those of the whole board, of which the job has a slice; clocks are refused.
    """

    name: str
    uuid: str
    kind: str  # "nvml" or "simulated"
    driver: str | None = None
    scope: str = "gpu_board"
    power_limit_w: float | None = None
    memory_clock_mhz: int | None = None
    power_meaning: PowerMeaning = PowerMeaning.INSTANT
    mig: bool = False
    pci_bus_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What works here, probed and not guessed: None where it works, else the reason why it does not.

    knob: how clocks are set, None where they cannot be.
    remedies: for each thing that does not work, what a user can do about it, by name of the field.
    """

    energy_counter: str | None
    power: str | None
    sm_clock: str | None
    throttle_reasons: str | None
    temperature: str | None
    supported_clocks: str | None
    set_clocks: str | None
    knob: ClockKnob | None
    remedies: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One look at the board."""

    sm_clock_mhz: int | Absent
    temperature_c: float | Absent
    throttle: Throttle | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClocks:
    """How a board's clock knob stood before anything was set: what giving it back means.

    locked_mhz: lowest and highest locked clock of a lock that the site had set, or None for no lock.
    application_mhz: the application clock that was set, or None where it is the default or there is no such knob.
    application_memory_mhz: the memory clock that goes with it; it is written back unchanged.
    """

    knob: ClockKnob
    locked_mhz: tuple[int, int] | None = None
    application_mhz: int | None = None
    application_memory_mhz: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object for the journal."""
        return {
            "knob": str(self.knob),
            "locked_mhz": None if self.locked_mhz is None else list(self.locked_mhz),
            "application_mhz": self.application_mhz,
            "application_memory_mhz": self.application_memory_mhz,
        }


class Device(Protocol):
    """One GPU. Energies in J, powers in W, clocks in MHz, temperatures in degrees Celsius."""

    @property
    def identity(self) -> Identity:
        """Which board this is."""

    @property
    def capabilities(self) -> Capabilities:
        """What works here."""

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """The clocks that can be asked for, highest first; empty where they are not known."""

    def state(self) -> State:
        """Clock, temperature and throttle reasons now."""

    def energy_j(self) -> float | Absent:
        """The energy counter: what the board has used since some moment in the past. It advances in ticks."""

    def power_w(self) -> float | Absent:
        """Power now, in the meaning that `identity.power_meaning` gives."""

    def find_clocks(self) -> FoundClocks:
        """How the clock knob stands, to be journaled before the first `lock_sm_clock`.

        Raises:
            ClockControlError: clocks cannot be set here.
        """

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        """Ask for one of the supported clocks.

        Raises:
            ClockControlError: refused; names the missing right.
        """

    def restore_clocks(self, found: FoundClocks) -> None:
        """Put the knob back as it was found.

        Raises:
            ClockControlError: refused.
        """

    def close(self) -> None:
        """Let go of the driver; may be called twice."""
