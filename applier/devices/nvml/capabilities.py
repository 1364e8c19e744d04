"""What a board can be asked and told, found by reading; nothing is set to find out."""

from dataclasses import dataclass

from energyopt.applier.devices.interface import Absent, Capabilities, ClockKnob
from energyopt.applier.devices.nvml import remedies, rights
from energyopt.applier.devices.nvml.clocks import GRAPHICS
from energyopt.applier.devices.nvml.driver import Board

VOLTA = (7, 0)  # compute capability of the first GPUs with locked clocks
RESTRICTED_APPLICATION_CLOCKS = 0  # nvmlRestrictedAPI_t


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One try of everything that can be read."""

    energy_j: float | Absent
    power_w: float | Absent
    sm_clock_mhz: int | Absent
    throttle: int | Absent
    temperature_c: float | Absent
    supported_mhz: tuple[int, ...] | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """How clocks are set, or why they are not and what to do."""

    knob: ClockKnob | None = None
    lacking: str | None = None
    remedy: str | None = None


def probe(board: Board, readings: Readings, *, mig: bool) -> Capabilities:
    """Sort out what works from one try of each reading, and how clocks can be set."""
    lacking = {
        "energy_counter": _lack(readings.energy_j),
        "power": _lack(readings.power_w),
        "sm_clock": _lack(readings.sm_clock_mhz),
        "throttle_reasons": _lack(readings.throttle),
        "temperature": _lack(readings.temperature_c),
        "supported_clocks": _lack(readings.supported_mhz),
    }
    setting = _find_setting(board, mig=mig)
    advice = {field: remedies.BY_FIELD[field] for field, lack in lacking.items() if lack is not None}
    if setting.remedy is not None:
        advice["set_clocks"] = setting.remedy
    return Capabilities(**lacking, set_clocks=setting.lacking, knob=setting.knob, remedies=advice)


def _lack(reading: object) -> str | None:
    return reading.reason if isinstance(reading, Absent) else None


def _find_setting(board: Board, *, mig: bool) -> _Setting:
    """Locked clocks where they work, then application clocks; the first set has the last word."""
    if mig:
        return _Setting(lacking="refused: the board is shared by MIG slices", remedy=remedies.MIG)
    administrator = rights.may_administer()
    locked, application = _has_locked_clocks(board), _has_application_clocks(board)
    if locked and administrator:
        return _Setting(knob=ClockKnob.LOCKED_CLOCKS)
    if application and (administrator or _application_clocks_are_free(board)):
        return _Setting(knob=ClockKnob.APPLICATION_CLOCKS)
    if locked or application:
        return _Setting(lacking="this user may not set clocks", remedy=remedies.RIGHTS)
    return _Setting(lacking="neither locked nor application clocks are supported", remedy=remedies.NO_KNOB)


def _has_locked_clocks(board: Board) -> bool:
    capability: tuple[int, int] | Absent = board.read("nvmlDeviceGetCudaComputeCapability")
    old = not isinstance(capability, Absent) and tuple(capability) < VOLTA
    names = ("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks")
    return not old and all(board.driver.has(name) for name in names)


def _has_application_clocks(board: Board) -> bool:
    clock = board.read("nvmlDeviceGetApplicationsClock", GRAPHICS)
    return not isinstance(clock, Absent) and board.driver.has("nvmlDeviceSetApplicationsClocks")


def _application_clocks_are_free(board: Board) -> bool:
    """Whether an administrator has let every user set application clocks (nvidia-smi -acp UNRESTRICTED)."""
    restricted: int | Absent = board.read("nvmlDeviceGetAPIRestriction", RESTRICTED_APPLICATION_CLOCKS)
    return not isinstance(restricted, Absent) and not restricted
