"""The test's side of the fake driver: compiles it, lays out its state file and changes boards while they run.

    board = fake_nvml.boards[0]
    board.load = 0.5                                  # from now on: energy up to now was used at the old load
    board.fault("energy", code=NOT_SUPPORTED)         # every call from now on
    board.fault("power", value=0xFFFFFFFF, calls=2)   # the next two calls succeed with this value
    board.fault("set_locked", code=NO_PERMISSION, after=3)
    fake_nvml.env                                     # for a subprocess: it finds the same library and boards
    fake_nvml.calls()                                 # what was set, by whom and when

The fields are those of `Board` in fake_nvml.c, where each is explained.
"""

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
MAGIC, VERSION, BOARDS, CLOCKS, MEMORIES, CHANGES = 0x46414B45, 1, 8, 256, 4, 64
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 3, 4, 15, 999
FAULTS = (
    *("everything", "identity", "energy", "power", "power_field", "clock", "throttle", "temperature"),
    *("supported", "limit", "mig", "capability", "restriction"),
    *("set_locked", "reset_locked", "get_application", "set_application", "processes"),
)


class _Fault(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("code", "calls", "after", "unused")),
        ("value", ctypes.c_uint64),
    )


class _Change(ctypes.Structure):
    _fields_ = (("at_s", ctypes.c_double), ("power_w", ctypes.c_double))


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class _Board(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("pci_bus_id", ctypes.c_char * 32),
        *_fields(ctypes.c_uint32, "capability power_limit_mw mig_mode mig_slices clock_count memory_count"),
        ("clocks_mhz", ctypes.c_uint32 * CLOCKS),
        ("memory_mhz", ctypes.c_uint32 * MEMORIES),
        *_fields(ctypes.c_uint32, "lowest_lock_mhz idle_mhz held_mhz ceiling_mhz throttle"),
        *_fields(ctypes.c_uint32, "usage_is_average usage_scope energy_scope application_restricted"),
        *_fields(ctypes.c_uint32, "lock_low_mhz lock_high_mhz"),
        *_fields(ctypes.c_uint32, "application_mhz application_memory_mhz application_default_mhz"),
        *_fields(ctypes.c_uint32, "clock_before_mhz counter_resets"),
        *_fields(ctypes.c_int32, "temperature_c others"),
        *_fields(ctypes.c_double, "load idle_w span_w module_extra_w tick_s set_delay_s clock_lag_s"),
        *_fields(ctypes.c_double, "counter_reset_s clock_change_s settled_s energy_j shown_j"),
        ("change_count", ctypes.c_uint64),
        ("changes", _Change * CHANGES),
        ("faults", _Fault * len(FAULTS)),
    )


class _State(ctypes.Structure):
    _fields_ = (*_fields(ctypes.c_uint32, "magic version count unused"), ("boards", _Board * BOARDS))


def build(folder: Path, *defines: str) -> Path:
    """Compile the library into a folder of its own; several processes may do so at once."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc, gcc or clang) for the fake NVML driver")
    target = folder / "-".join(("nvml", *defines)) / LIBRARY
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        half = target.with_name(f"{os.getpid()}.so")
        options = [f"-D{define}" for define in defines]
        command = [compiler, "-shared", "-fPIC", "-O1", "-pthread", f"-Wl,-soname,{LIBRARY}", *options]
        subprocess.run([*command, "-o", str(half), str(SOURCE)], check=True, timeout=60)
        half.replace(target)
    return target


@dataclass(frozen=True)
class Call:
    """One line of the log: something was asked to be set or reset. `code` 0 is success."""

    time_s: float
    pid: int
    uuid: str
    call: str
    arguments: tuple[int, int]
    code: int


class FakeBoard:
    """One board; reading and writing its attributes reads and writes the state that the driver uses."""

    def __init__(self, owner: "FakeNvml", index: int) -> None:
        object.__setattr__(self, "_owner", owner)
        object.__setattr__(self, "_raw", owner._state.boards[index])

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._raw, name)
        return value.decode() if isinstance(value, bytes) else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._owner.settle()
        setattr(self._raw, name, value.encode() if isinstance(value, str) else value)

    def set_clocks(self, clocks_mhz: Sequence[int]) -> None:
        """What the board supports, highest first."""
        self._raw.clocks_mhz[: len(clocks_mhz)] = clocks_mhz
        self._raw.clock_count = len(clocks_mhz)

    def fault(self, kind: str, *, code: int = 0, value: int = 0, calls: int = -1, after: int = 0) -> None:
        """Plant a fault in one kind of call (FAULTS): an error code, or a value given as success."""
        self._raw.faults[FAULTS.index(kind)] = _Fault(code, calls, after, 0, value)

    def heal(self) -> None:
        """Take every fault away."""
        for kind in FAULTS:
            self.fault(kind, calls=0)

    def restart_counter(self) -> None:
        """The energy counter begins at 0 again, as when the driver is loaded anew."""
        self.counter_reset_s = time.monotonic()

    def power_w(self, clock_mhz: float, load: float | None = None) -> float:
        """What the board's formula says for a clock: the expected value for a test."""
        share = clock_mhz / self.clocks_mhz[0]
        return self.idle_w + (self.load if load is None else load) * self.span_w * share**3

    @property
    def lock_mhz(self) -> tuple[int, int] | None:
        """The lock that is in force."""
        return (self.lock_low_mhz, self.lock_high_mhz) if self.lock_high_mhz else None


def _default_board(raw: _Board, index: int) -> None:
    clocks_mhz = range(1410, 209, -15)  # an A100's
    settings = {
        "name": b"NVIDIA A100-SXM4-80GB",
        "uuid": f"GPU-{index:08x}-1111-2222-3333-44444444444f".encode(),
        "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0".encode(),
        "capability": 80,
        "power_limit_mw": 400_000,
        "clock_count": len(clocks_mhz),
        "memory_count": 1,
        "lowest_lock_mhz": 210,
        "idle_mhz": 210,
        "application_mhz": 1410,
        "application_default_mhz": 1410,
        "application_memory_mhz": 1593,
        "temperature_c": 45,
        "load": 1.0,
        "idle_w": 80.0,
        "span_w": 300.0,
        "tick_s": 0.02,
        "settled_s": time.monotonic(),
        "energy_j": 1000.0,
        "shown_j": 1000.0,
    }
    for name, value in settings.items():
        setattr(raw, name, value)
    raw.clocks_mhz[: len(clocks_mhz)] = tuple(clocks_mhz)
    raw.memory_mhz[0] = 1593


class FakeNvml:
    """A driver with `count` boards, in the files of one folder."""

    def __init__(self, folder: Path, library: Path, count: int = 1) -> None:
        self.library = library
        self.log = folder / "nvml.log"
        self._file = (folder / "nvml.state").open("w+b")
        self._file.truncate(ctypes.sizeof(_State))
        self._state = _State.from_buffer(mmap(self._file.fileno(), ctypes.sizeof(_State)))
        self._driver = ctypes.CDLL(str(library))
        assert self._driver.fake_state_size() == ctypes.sizeof(_State), (
            "fake_boards.py and fake_nvml.c differ"
        )
        self._driver.fake_forget()
        self.set_count(count)
        self._state.version, self._state.magic = VERSION, MAGIC
        self.variables = {"FAKE_NVML_STATE": self._file.name, "FAKE_NVML_LOG": str(self.log)}

    def set_count(self, count: int) -> None:
        """So many fresh boards of one kind: A100s at full load, no faults, nothing locked."""
        for index in range(count):
            ctypes.memset(ctypes.byref(self._state.boards[index]), 0, ctypes.sizeof(_Board))
            _default_board(self._state.boards[index], index)
        self._state.count = count
        self.boards = tuple(FakeBoard(self, index) for index in range(count))

    @property
    def env(self) -> dict[str, str]:
        """The environment for a subprocess whose libnvidia-ml.so.1 shall be this one."""
        path = os.pathsep.join(filter(None, (str(self.library.parent), os.environ.get("LD_LIBRARY_PATH"))))
        return {**os.environ, **self.variables, "LD_LIBRARY_PATH": path}

    def settle(self) -> None:
        """Account for energy up to now, before something changes."""
        assert self._driver.fake_settle() == 0, "the fake driver cannot read its state file"

    def open_count(self) -> int:
        """How often this process has NVML open."""
        return int(self._driver.fake_open_count())

    def calls(self) -> list[Call]:
        """Everything that any process set or reset, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        words = [line.split() for line in lines]
        return [Call(float(w[0]), int(w[1]), w[2], w[3], (int(w[4]), int(w[5])), int(w[6])) for w in words]

    def close(self) -> None:
        self._file.close()
