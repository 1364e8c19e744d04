import os
import sys
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.applier.devices.nvml.driver import Board, CallFailedError, Code, Driver
from energyopt.schemas.errors import DeviceError

ENERGY, NAME = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetName"


@pytest.fixture
def board(fake_nvml: Any) -> Board:
    return Board(Driver(), fake_nvml.boards[0].uuid)


def test_codes_are_those_of_the_bindings() -> None:
    for code in Code:
        assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code


def test_a_machine_without_driver_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_nothing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", find_nothing)
    with pytest.raises(DeviceError, match=r"no NVIDIA driver .*libnvidia-ml\.so\.1 not found\)$"):
        Driver()


def test_a_driver_that_is_not_loaded_is_said(fake_nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML_STATE", "/nowhere")
    with pytest.raises(DeviceError, match="driver is not loaded"):
        Driver()
    assert fake_nvml.open_count() == 0


def test_missing_bindings_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DeviceError, match="pip install nvidia-ml-py"):
        Driver()


def test_each_driver_opens_and_closes_once(fake_nvml: Any) -> None:
    first, second = Driver(), Driver()
    assert fake_nvml.open_count() == 2
    first.close()
    first.close()
    assert fake_nvml.open_count() == 1
    second.close()
    assert fake_nvml.open_count() == 0


@pytest.mark.usefixtures("fake_nvml")
def test_closing_after_somebody_shut_nvml_down_is_quiet() -> None:
    driver = Driver()
    pynvml.nvmlShutdown()
    driver.close()


def test_a_reading_after_somebody_shut_nvml_down_is_an_error(board: Board) -> None:
    board.find()
    pynvml.nvmlShutdown()
    with pytest.raises(DeviceError, match="shut down in this process"):
        board.read(ENERGY)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.NOT_SUPPORTED, "not supported by this GPU"),
        (Code.NO_PERMISSION, "not allowed for this user"),
        (Code.NO_DATA, "the driver has no reading yet"),
        (999, "the driver gave error 999"),
    ],
)
def test_an_error_is_an_absent_value(fake_nvml: Any, board: Board, code: int, reason: str) -> None:
    fake_nvml.boards[0].fault("energy", code=code)
    assert board.read(ENERGY) == Absent(reason)


@pytest.mark.parametrize("code", [Code.GPU_IS_LOST, Code.RESET_REQUIRED])
def test_a_lost_board_is_an_error(fake_nvml: Any, board: Board, code: int) -> None:
    fake_nvml.boards[0].fault("energy", code=code)
    with pytest.raises(DeviceError, match=r"GPU-00000000-1111.*restart the machine"):
        board.read(ENERGY)


def test_what_the_bindings_lack_is_absent(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    assert board.driver.has(ENERGY)
    monkeypatch.delattr(pynvml, ENERGY)
    assert not board.driver.has(ENERGY)
    assert board.read(ENERGY) == Absent("this driver or its Python bindings are too old for it")


def test_what_the_driver_lacks_is_absent(make_fake_nvml: Callable[..., Any]) -> None:
    fake = make_fake_nvml(1, "NO_TOTAL_ENERGY")
    board = Board(Driver(), fake.boards[0].uuid)
    assert not board.driver.has(ENERGY)
    assert board.read(ENERGY) == Absent("this driver or its Python bindings are too old for it")


def test_names_are_read_leniently(fake_nvml: Any, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml.boards[0]._raw.name = b"NVIDIA A\xff00"  # bytes that are no UTF-8
    assert board.read(NAME) == "NVIDIA A\ufffd00"
    monkeypatch.setattr(pynvml, NAME, lambda _: b"NVIDIA A100")  # as older bindings answer
    assert board.read(NAME) == "NVIDIA A100"


@pytest.mark.usefixtures("fake_nvml")
def test_an_unknown_board_is_not_found() -> None:
    with pytest.raises(CallFailedError, match="not known to the driver"):
        Board(Driver(), "GPU-none").find()


def test_a_forked_child_opens_the_driver_again(fake_nvml: Any, board: Board) -> None:
    board.find()
    child = os.fork()
    if child == 0:  # the parent's handle and its opening are worth nothing here
        fresh = fake_nvml.open_count() == 0 and board.read(NAME) == "NVIDIA A100-SXM4-80GB"
        board.driver.close()
        os._exit(0 if fresh and fake_nvml.open_count() == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fake_nvml.open_count() == 1
    assert board.read(NAME) == "NVIDIA A100-SXM4-80GB"


def test_a_forked_child_that_only_closes_leaves_the_parent_open(fake_nvml: Any, board: Board) -> None:
    child = os.fork()
    if child == 0:
        board.driver.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fake_nvml.open_count() == 1
