import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.nvml.device import NvmlDevice
from energyopt.applier.devices.nvml.opening import list_devices, open_nvml
from energyopt.schemas.errors import DeviceError

LOST, UNKNOWN = 15, 999


@pytest.fixture
def fake(make_fake_nvml: Callable[..., Any]) -> Any:
    return make_fake_nvml(3)


def test_an_ordinal_is_not_an_index_of_nvml(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    assert open_nvml("0").identity.uuid == fake.boards[2].uuid
    assert open_nvml("auto").identity.uuid == fake.boards[2].uuid
    assert open_nvml("1").identity.uuid == fake.boards[1].uuid
    assert open_nvml(fake.boards[0].uuid).identity.uuid == fake.boards[0].uuid


def test_boards_are_counted_along_the_bus(fake: Any) -> None:
    """NVML's order is not promised to be the bus's."""
    fake.boards[0].pci_bus_id = "00000000:F0:00.0"
    fake.boards[1].pci_bus_id = "00000001:01:00.0"
    order = [device.identity.uuid for device in list_devices() if isinstance(device, NvmlDevice)]
    assert order == [fake.boards[place].uuid for place in (2, 0, 1)]
    assert open_nvml("0").identity.uuid == fake.boards[2].uuid


def test_closing_and_failing_leave_nothing_open(fake: Any) -> None:
    device = open_nvml()
    device.close()
    device.close()
    for selector in ("7", "GPU-nothing", "MIG-nothing", "what"):
        with pytest.raises(DeviceError):
            open_nvml(selector)
    for listed in list_devices():
        assert isinstance(listed, NvmlDevice)
        listed.close()
    assert fake.open_count() == 0


@pytest.mark.parametrize("code", [LOST, UNKNOWN])
def test_one_bad_board_does_not_take_the_others_down(fake: Any, code: int) -> None:
    fake.boards[1].fault("everything", code=code)
    first, second, third = list_devices()
    assert isinstance(first, NvmlDevice)
    assert second == "GPU 1 (in NVML's order) does not answer: reset it or restart the machine"
    assert isinstance(third, NvmlDevice)
    assert third.power_w() == pytest.approx(380.0)
    assert open_nvml(fake.boards[2].uuid).identity.uuid == fake.boards[2].uuid
    with pytest.raises(DeviceError, match="1 of 3 GPUs do not answer"):
        open_nvml("0")


def test_a_board_that_fails_while_it_is_opened_says_why(fake: Any) -> None:
    fake.boards[1].fault("power_field", code=LOST)
    assert "the GPU is lost" in str(list_devices()[1])
    with pytest.raises(DeviceError, match=r"GPU-00000001-1111.*the GPU is lost"):
        open_nvml(fake.boards[1].uuid)


def test_a_slice_opens_its_board_and_refuses_clocks(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.boards[1].mig_mode = 1
    fake.boards[1].mig_slices = 2
    name = fake.boards[1].uuid.replace("GPU-", "MIG-")[:-1] + "1"
    for selector in (name, f"MIG-{fake.boards[1].uuid}/1/0"):
        device = open_nvml(selector)
        assert device.identity.uuid == fake.boards[1].uuid
        assert device.identity.mig
        assert device.power_w() == pytest.approx(380.0)
        assert device.capabilities.knob is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", name)
    assert open_nvml().identity.uuid == fake.boards[1].uuid
    with pytest.raises(DeviceError, match="cannot open the GPU 'MIG-none': not known to the driver"):
        open_nvml("MIG-none")


def test_a_board_in_mig_mode_is_marked_without_a_slice_being_named(fake: Any) -> None:
    fake.boards[0].mig_mode = 1
    assert open_nvml(fake.boards[0].uuid).identity.mig
    assert not open_nvml(fake.boards[1].uuid).identity.mig


def test_another_process_sees_the_same_boards(fake: Any) -> None:
    """Through LD_LIBRARY_PATH, as the bindings find a real driver."""
    code = (
        "from energyopt.applier.devices.nvml.opening import open_nvml\n"
        "device = open_nvml('1')\nprint(device.identity.uuid, device.state().sm_clock_mhz)"
    )
    open_nvml("1").lock_sm_clock(1200)
    done = subprocess.run(
        [sys.executable, "-c", code], env=fake.env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [fake.boards[1].uuid, "1200"]


def test_a_device_works_in_a_forked_child(fake: Any) -> None:
    device = open_nvml("1")
    child = os.fork()
    if child == 0:
        device.lock_sm_clock(900)
        os._exit(0 if device.power_w() == pytest.approx(fake.boards[1].power_w(900), abs=0.01) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert device.state().sm_clock_mhz == 900
    assert fake.boards[1].lock_mhz == (900, 900)
