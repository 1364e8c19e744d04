"""Who else computes on a board."""

import os

from energyopt.applier.devices.interface import Absent
from energyopt.applier.devices.nvml.driver import Board, Driver

_CALLS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")


def count_others(uuid: str) -> int | Absent:
    """How many processes other than this one have work on a board, or why the driver does not tell.

    To be asked before this process works there: in a container the driver may know it by another number.

    Raises:
        DeviceError: no driver, or the board is gone.
    """
    driver = Driver()
    try:
        board = Board(driver, uuid)
        found = board.read(_CALLS[0])
        if isinstance(found, Absent):
            found = board.read(_CALLS[1])
    finally:
        driver.close()
    return found if isinstance(found, Absent) else sum(one.pid != os.getpid() for one in found)
