"""A board of NVML as a `Device`."""

from collections.abc import Callable
from typing import Any, TypeVar

from energyopt.applier.devices.interface import (
    Absent,
    Capabilities,
    FoundClocks,
    Identity,
    State,
    Throttle,
)
from energyopt.applier.devices.nvml import sanity
from energyopt.applier.devices.nvml.capabilities import Readings, probe
from energyopt.applier.devices.nvml.clocks import MEMORY, Clocks
from energyopt.applier.devices.nvml.driver import Board, Driver
from energyopt.applier.devices.nvml.power import PowerSource, choose_source

T = TypeVar("T")
SM = 1  # nvmlClockType_t
GPU_SENSOR = 0  # nvmlTemperatureSensors_t
MODULE_COUNTER = (
    "on this superchip the counter covers CPU and memory as well; the GPU's own power is read instead"
)


class NvmlDevice:
    """One whole board. It can be used in a forked child, where it opens the driver again.

    Raises:
        CallFailedError: the driver knows no such board, or not its own version.
        DeviceError: the board does not answer.
    """

    def __init__(self, driver: Driver, uuid: str, *, mig: bool = False) -> None:
        self._board = Board(driver, uuid)
        self._board.find()
        self._rejected = 0
        name = _or_none(self._board.read("nvmlDeviceGetName")) or "NVIDIA GPU"
        self._power = choose_source(self._board, name)
        self._identity = _identify(self._board, name, self._power, mig=mig or _has_mig(self._board))
        supported_mhz = _supported_mhz(self._board)
        self._supported_mhz = () if isinstance(supported_mhz, Absent) else supported_mhz
        self._capabilities = probe(self._board, self._try_all(supported_mhz), mig=self._identity.mig)
        self._clocks = Clocks(self._board, self._identity, self._capabilities)

    @property
    def identity(self) -> Identity:
        """Which board this is."""
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        """What worked when the device was opened."""
        return self._capabilities

    @property
    def rejected(self) -> int:
        """How many readings the driver gave as good that cannot be true, since the device was opened."""
        return self._rejected

    def supported_sm_clocks_mhz(self) -> tuple[int, ...]:
        """The clocks that can be asked for, highest first; empty where they are not known."""
        return self._supported_mhz

    def state(self) -> State:
        """Clock, temperature and throttle reasons now.

        Raises:
            DeviceError: the board is gone.
        """
        return State(
            sm_clock_mhz=self._read(sanity.clock_mhz, "nvmlDeviceGetClockInfo", SM),
            temperature_c=self._checked(
                sanity.temperature_c,
                self._first("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", GPU_SENSOR),
            ),
            throttle=self._throttle(),
        )

    def energy_j(self) -> float | Absent:
        """The board's energy counter, J since the driver was loaded.

        Raises:
            DeviceError: the board is gone.
        """
        if self._power.excludes_counter:
            return Absent(MODULE_COUNTER)
        return self._read(sanity.energy_j, "nvmlDeviceGetTotalEnergyConsumption")

    def power_w(self) -> float | Absent:
        """Power now, W, in the meaning of `identity.power_meaning`.

        Raises:
            DeviceError: the board is gone.
        """
        limit_w = None if self._power.covers_module else self._identity.power_limit_w
        return self._checked(lambda raw: sanity.power_w(raw, limit_w), self._power.read_mw(self._board))

    def find_clocks(self) -> FoundClocks:
        """How the clock knob stands; see `clocks` for what cannot be known.

        Raises:
            ClockControlError: clocks cannot be set here.
            DeviceError: the board is gone.
        """
        return self._clocks.find()

    def lock_sm_clock(self, sm_clock_mhz: int) -> None:
        """Ask for one of the supported clocks.

        Raises:
            ClockControlError: refused, or not a supported clock.
            DeviceError: the board is gone.
        """
        self._clocks.lock(sm_clock_mhz, self._supported_mhz)

    def restore_clocks(self, found: FoundClocks) -> None:
        """Put the knob back as it was found.

        Raises:
            ClockControlError: refused.
            DeviceError: the board is gone.
        """
        self._clocks.restore(found)

    def close(self) -> None:
        """Let go of the driver; may be called twice."""
        self._board.driver.close()

    def _try_all(self, supported_mhz: tuple[int, ...] | Absent) -> Readings:
        state = self.state()
        return Readings(
            energy_j=self.energy_j(),
            power_w=self.power_w(),
            sm_clock_mhz=state.sm_clock_mhz,
            throttle=state.throttle,
            temperature_c=state.temperature_c,
            supported_mhz=supported_mhz,
        )

    def _throttle(self) -> Throttle | Absent:
        bits = self._first(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        return bits if isinstance(bits, Absent) else Throttle(bits)

    def _first(self, name: str, older: str, *arguments: Any) -> int | Absent:
        """What a call gives, or where it gives nothing the call that it replaced."""
        value: int | Absent = self._board.read(name, *arguments)
        return self._board.read(older, *arguments) if isinstance(value, Absent) else value

    def _read(self, check: Callable[[int], T | Absent], name: str, *arguments: Any) -> T | Absent:
        return self._checked(check, self._board.read(name, *arguments))

    def _checked(self, check: Callable[[int], T | Absent], raw: int | Absent) -> T | Absent:
        if isinstance(raw, Absent):
            return raw
        value = check(raw)
        self._rejected += isinstance(value, Absent)
        return value


def _or_none(value: Any) -> Any:
    return None if isinstance(value, Absent) else value


def _identify(board: Board, name: str, power: PowerSource, *, mig: bool) -> Identity:
    pci = _or_none(board.read("nvmlDeviceGetPciInfo"))
    return Identity(
        name=name,
        uuid=board.uuid,
        kind="nvml",
        driver=board.driver.call("nvmlSystemGetDriverVersion"),
        scope="module" if power.superchip and not power.excludes_counter else "gpu_board",
        power_limit_w=_power_limit_w(board),
        memory_clock_mhz=_or_none(_memory_clock_mhz(board)),
        power_meaning=power.meaning,
        mig=mig,
        pci_bus_id=None if pci is None else _text(pci.busId),
    )


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _has_mig(board: Board) -> bool:
    mode = board.read("nvmlDeviceGetMigMode")
    return not isinstance(mode, Absent) and mode[0] == 1


def _power_limit_w(board: Board) -> float | None:
    for name in ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"):
        raw_mw = board.read(name)
        if not isinstance(raw_mw, Absent):
            limit_w = sanity.power_limit_w(raw_mw)
            return None if isinstance(limit_w, Absent) else limit_w
    return None


def _memory_clock_mhz(board: Board) -> int | Absent:
    """The memory clock under load: what is set, else the highest (the clock of an idle board can be lower)."""
    clock = board.read("nvmlDeviceGetApplicationsClock", MEMORY)
    if isinstance(clock, Absent):
        clock = board.read("nvmlDeviceGetMaxClockInfo", MEMORY)
    return clock if isinstance(clock, Absent) else sanity.clock_mhz(clock)


def _supported_mhz(board: Board) -> tuple[int, ...] | Absent:
    """The SM clocks that go with the memory clock under load, highest first."""
    memory_mhz = _memory_clock_mhz(board)
    clocks = board.read("nvmlDeviceGetSupportedGraphicsClocks", _or_none(memory_mhz) or 0)
    if isinstance(clocks, Absent) or not clocks:
        memories = board.read("nvmlDeviceGetSupportedMemoryClocks")
        if isinstance(memories, Absent):
            return memories
        clocks = board.read("nvmlDeviceGetSupportedGraphicsClocks", max(memories, default=0))
    if isinstance(clocks, Absent):
        return clocks
    return tuple(sorted(set(clocks), reverse=True)) or Absent("the driver lists no clocks")
