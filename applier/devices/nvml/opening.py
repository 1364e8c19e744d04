"""Opening boards: one that is meant, or all that answer."""

import os

from energyopt.applier.devices.nvml.device import NvmlDevice
from energyopt.applier.devices.nvml.driver import CallFailedError, Driver
from energyopt.applier.devices.nvml.resolve import ListedBoard, resolve
from energyopt.schemas.errors import DeviceError


def open_nvml(selector: str = "auto") -> NvmlDevice:
    """Open one board of this machine.

    Args:
        selector: `auto`, an ordinal of CUDA, a UUID or the beginning of one, or the name of a MIG slice, which
            opens the board that the slice is on.

    Raises:
        DeviceError: no driver, no such board, not certain which board is meant, or it does not answer.
    """
    driver = Driver()
    try:
        uuid = resolve(selector, list_boards(driver), os.environ)
        if uuid.startswith("MIG-"):
            return NvmlDevice(driver, _board_of_slice(driver, uuid), mig=True)
        return NvmlDevice(driver, uuid)
    except CallFailedError as error:
        driver.close()
        raise DeviceError(f"cannot open the GPU {selector!r}: {error}") from error
    except BaseException:
        driver.close()
        raise


def list_devices() -> tuple[NvmlDevice | str, ...]:
    """Every board in PCI order: opened, or why it could not be. Each must be closed.

    Raises:
        DeviceError: no driver.
    """
    driver = Driver()
    try:
        boards = list_boards(driver)
    finally:
        driver.close()
    return tuple(_open_or_say_why(place, board) for place, board in enumerate(boards))


def list_boards(driver: Driver) -> tuple[ListedBoard, ...]:
    """All boards in PCI order, or in NVML's, which follows it mostly, where one of them does not answer.

    Raises:
        CallFailedError: the driver does not even say how many there are.
    """
    listed = [_list_board(driver, index) for index in range(driver.call("nvmlDeviceGetCount"))]
    if all(place is not None for place, _ in listed):
        listed.sort(key=lambda entry: entry[0] or ())
    return tuple(board for _, board in listed)


def _list_board(driver: Driver, index: int) -> tuple[tuple[int, ...] | None, ListedBoard]:
    try:
        handle = driver.call("nvmlDeviceGetHandleByIndex", index)
        pci = driver.call("nvmlDeviceGetPciInfo", handle)
        board = ListedBoard(
            uuid=driver.call("nvmlDeviceGetUUID", handle), name=driver.call("nvmlDeviceGetName", handle)
        )
    except CallFailedError:
        return None, ListedBoard(uuid=None, name=None)
    return (pci.domain, pci.bus, pci.device), board


def _open_or_say_why(place: int, board: ListedBoard) -> NvmlDevice | str:
    if board.uuid is None:
        return f"GPU {place} (in NVML's order) does not answer: reset it or restart the machine"
    driver = Driver()
    try:
        return NvmlDevice(driver, board.uuid)
    except (CallFailedError, DeviceError) as error:
        driver.close()
        return str(error)


def _board_of_slice(driver: Driver, name: str) -> str:
    """The UUID of the board that a MIG slice is on, for `MIG-UUID` and the older `MIG-GPU-UUID/GI/CI`."""
    if name.startswith("MIG-GPU-"):
        return name.removeprefix("MIG-").split("/", maxsplit=1)[0]
    handle = driver.call("nvmlDeviceGetHandleByUUID", name)
    board = driver.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
    uuid: str = driver.call("nvmlDeviceGetUUID", board)
    return uuid
