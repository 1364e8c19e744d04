"""The driver's library behind one kind of call: what it answers, and its errors as answers or as ours.

NVML counts how often it was opened, so every `Driver` opens it for itself. In a forked child it has to be opened
again, and handles looked up again, before anything works; both happen at the child's first call.
"""

import os
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from typing import Any

from energyopt.applier.devices.interface import Absent
from energyopt.schemas.errors import DeviceError

NO_DRIVER = "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"


class Code(IntEnum):
    """NVML's error codes (nvmlReturn_t) that are told apart here."""

    UNINITIALIZED = 1
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    NO_DATA = 21


REASONS = {
    Code.UNINITIALIZED: "NVML was shut down in this process",
    Code.NOT_SUPPORTED: "not supported by this GPU",
    Code.NO_PERMISSION: "not allowed for this user",
    Code.NOT_FOUND: "not known to the driver",
    Code.DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: modprobe nvidia, or pass the GPU into the container",
    Code.LIBRARY_NOT_FOUND: NO_DRIVER,
    Code.FUNCTION_NOT_FOUND: "this driver or its Python bindings are too old for it",
    Code.GPU_IS_LOST: "the GPU is lost (it does not answer on its bus): reset it or restart the machine",
    Code.RESET_REQUIRED: "the GPU needs a reset: nvidia-smi --gpu-reset, or restart the machine",
    Code.LIB_RM_VERSION_MISMATCH: "the driver was updated while its old kernel module runs: restart the machine",
    Code.NO_DATA: "the driver has no reading yet",
}
FATAL = frozenset(
    {
        Code.UNINITIALIZED,
        Code.DRIVER_NOT_LOADED,
        Code.GPU_IS_LOST,
        Code.RESET_REQUIRED,
        Code.LIB_RM_VERSION_MISMATCH,
    }
)
"""After these nothing that the board says is worth reading."""


class CallFailedError(Exception):
    """An NVML call gave an error code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(reason(code))


class NoGpuError(DeviceError):
    """There is no GPU here, or no driver for one."""


def reason(code: int) -> str:
    """An error code in plain words."""
    known = {int(key): text for key, text in REASONS.items()}
    return known.get(code, f"the driver gave error {code}")


class Driver:
    """NVML, opened.

    Raises:
        DeviceError: no driver, no bindings, or a driver that does not start.
    """

    def __init__(self) -> None:
        try:
            self._nvml = import_module("pynvml")
        except ImportError as error:
            raise DeviceError("the NVML bindings are missing; pip install nvidia-ml-py") from error
        self._pid = 0
        self.open_here()

    def open_here(self) -> int:
        """Open NVML in this process unless it is; the process's id, which changes in a forked child."""
        pid = os.getpid()
        if self._pid != pid:
            try:
                self._nvml.nvmlInit()
            except self._nvml.NVMLError as error:
                kind = NoGpuError if error.value == Code.LIBRARY_NOT_FOUND else DeviceError
                raise kind(reason(error.value)) from error
            self._pid = pid
        return pid

    def call(self, name: str, *arguments: Any) -> Any:
        """One NVML function by name.

        Raises:
            CallFailedError: it gave an error, or the bindings or the driver lack it.
        """
        function = getattr(self._nvml, name, None)
        if function is None:
            raise CallFailedError(Code.FUNCTION_NOT_FOUND)
        try:
            answer = function(*arguments)
        except self._nvml.NVMLError as error:
            raise CallFailedError(error.value) from error
        except UnicodeDecodeError as error:  # the bindings insist on UTF-8 names
            answer = error.object
        return answer.decode(errors="replace") if isinstance(answer, bytes) else answer

    def has(self, name: str) -> bool:
        """Whether bindings and driver both know a function; it is not called."""
        library = getattr(self._nvml, "nvmlLib", None)
        return hasattr(self._nvml, name) and (library is None or hasattr(library, name))

    def close(self) -> None:
        """Shut down what this process opened; may be called twice."""
        if self._pid == os.getpid():
            with suppress(self._nvml.NVMLError):  # somebody else shut NVML down: it is closed
                self._nvml.nvmlShutdown()
        self._pid = 0


class Board:
    """One whole board, found by its UUID: every call has its handle as first argument."""

    def __init__(self, driver: Driver, uuid: str) -> None:
        self.driver = driver
        self.uuid = uuid
        self._handle: Any = None
        self._handle_pid = 0

    def call(self, name: str, *arguments: Any) -> Any:
        """One NVML function of this board.

        Raises:
            CallFailedError: it gave an error.
            DeviceError: the driver cannot be opened in this process.
        """
        self.find()
        return self.driver.call(name, self._handle, *arguments)

    def find(self) -> None:
        """Look the handle up unless this process has; raises as `call` does."""
        pid = self.driver.open_here()
        if self._handle_pid != pid:
            self._handle = self.driver.call("nvmlDeviceGetHandleByUUID", self.uuid)
            self._handle_pid = pid

    def read(self, name: str, *arguments: Any) -> Any:
        """What a getter says, or `Absent` with the reason.

        Raises:
            DeviceError: the board is gone, so that no reading of it can be trusted.
        """
        try:
            return self.call(name, *arguments)
        except CallFailedError as error:
            if error.code in FATAL:
                raise DeviceError(f"{self.uuid}: {error}") from error
            return Absent(str(error))
