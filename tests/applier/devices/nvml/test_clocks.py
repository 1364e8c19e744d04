from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.interface import ClockKnob, FoundClocks
from energyopt.applier.devices.nvml.opening import open_nvml
from energyopt.schemas.errors import ClockControlError, DeviceError

NOT_SUPPORTED, NO_PERMISSION, LOST, UNKNOWN = 3, 4, 15, 999
LOCKED = FoundClocks(knob=ClockKnob.LOCKED_CLOCKS)


def calls(fake: Any) -> list[tuple[str, tuple[int, int]]]:
    return [(call.call, call.arguments) for call in fake.calls()]


def test_a_lock_is_one_clock_and_given_back_by_taking_it_off(fake_nvml: Any) -> None:
    board, device = fake_nvml.boards[0], open_nvml()
    found = device.find_clocks()
    assert found == LOCKED
    device.lock_sm_clock(1200)
    assert board.lock_mhz == (1200, 1200)
    device.restore_clocks(found)
    assert board.lock_mhz is None
    assert calls(fake_nvml) == [("set_locked_clocks", (1200, 1200)), ("reset_locked_clocks", (0, 0))]


def test_a_known_lock_of_the_site_is_put_back(fake_nvml: Any) -> None:
    device = open_nvml()
    device.lock_sm_clock(900)
    device.restore_clocks(FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(210, 1200)))
    assert fake_nvml.boards[0].lock_mhz == (210, 1200)


def test_locking_leaves_application_clocks_alone(fake_nvml: Any) -> None:
    board, device = fake_nvml.boards[0], open_nvml()
    board.application_mhz = 1305
    device.lock_sm_clock(900)
    device.restore_clocks(device.find_clocks())
    assert board.application_mhz == 1305
    assert device.state().sm_clock_mhz == 1305


@pytest.fixture
def pascal(fake_nvml: Any) -> Any:
    """A board with application clocks alone, 1410 MHz by default, and two memory clocks."""
    board = fake_nvml.boards[0]
    board.capability = 60
    board.memory_count = 2
    board.memory_mhz[1] = 1215
    return board


def test_application_clocks_at_their_default_are_reset(fake_nvml: Any, pascal: Any) -> None:
    device = open_nvml()
    found = device.find_clocks()
    assert found == FoundClocks(knob=ClockKnob.APPLICATION_CLOCKS, application_memory_mhz=1593)
    device.lock_sm_clock(1200)
    assert pascal.application_mhz == 1200
    device.restore_clocks(found)
    assert calls(fake_nvml)[1:] == [("reset_applications_clocks", (0, 0))]
    assert pascal.application_mhz == 1410


@pytest.mark.parametrize(("memory_mhz", "graphics_mhz"), [(1593, 1305), (1215, 1305), (1215, 1410)])
def test_application_clocks_of_the_site_are_put_back_with_their_memory_clock(
    fake_nvml: Any, pascal: Any, memory_mhz: int, graphics_mhz: int
) -> None:
    pascal.application_mhz, pascal.application_memory_mhz = graphics_mhz, memory_mhz
    device = open_nvml()
    found = device.find_clocks()
    device.lock_sm_clock(900)
    device.restore_clocks(found)
    assert calls(fake_nvml) == [
        ("set_applications_clocks", (memory_mhz, 900)),
        ("set_applications_clocks", (memory_mhz, graphics_mhz)),
    ]


def test_application_clocks_that_cannot_be_read_are_not_set(fake_nvml: Any, pascal: Any) -> None:
    device = open_nvml()
    pascal.fault("get_application", code=UNKNOWN)
    for attempt in (device.find_clocks, lambda: device.lock_sm_clock(900)):
        with pytest.raises(ClockControlError, match="could not be given back: the driver gave error 999"):
            attempt()
    assert fake_nvml.calls() == []


def test_application_clocks_without_a_known_default_are_put_back_as_set(pascal: Any) -> None:
    device = open_nvml()
    pascal.fault("get_application", code=NOT_SUPPORTED, after=2)  # the third and fourth ask for the default
    assert device.find_clocks() == FoundClocks(
        knob=ClockKnob.APPLICATION_CLOCKS, application_mhz=1410, application_memory_mhz=1593
    )


@pytest.mark.parametrize(("asked", "nearest"), [(1201, 1200), (1409, 1410), (0, 210), (5000, 1410)])
def test_only_supported_clocks_are_accepted(fake_nvml: Any, asked: int, nearest: int) -> None:
    with pytest.raises(ClockControlError, match=f"has no clock of {asked} MHz; the nearest is {nearest} MHz"):
        open_nvml().lock_sm_clock(asked)
    assert fake_nvml.calls() == []


def test_any_clock_may_be_asked_for_where_none_are_listed(fake_nvml: Any) -> None:
    fake_nvml.boards[0].fault("supported", code=NOT_SUPPORTED)
    open_nvml().lock_sm_clock(1201)
    assert fake_nvml.boards[0].lock_mhz == (1201, 1201)


def test_a_refusal_names_the_board_the_right_and_the_ways_out(fake_nvml: Any) -> None:
    """The rights were there by the kernel's word, and the driver says no all the same."""
    device = open_nvml()
    fake_nvml.boards[0].fault("set_locked", code=NO_PERMISSION)
    with pytest.raises(ClockControlError) as caught:
        device.lock_sm_clock(1200)
    text = str(caught.value)
    assert text.startswith("NVIDIA A100-SXM4-80GB (GPU-00000000-1111")
    for part in ("not allowed for this user", "root", "--cap-add SYS_ADMIN", "--clocks current"):
        assert part in text
    assert "\n" not in text
    assert fake_nvml.boards[0].lock_mhz is None


def test_a_refusal_to_give_back_is_an_error(fake_nvml: Any) -> None:
    device = open_nvml()
    device.lock_sm_clock(1200)
    fake_nvml.boards[0].fault("reset_locked", code=UNKNOWN, calls=1)
    with pytest.raises(ClockControlError, match=r"ResetGpuLockedClocks.*error 999; .*nvidia-smi -rgc"):
        device.restore_clocks(LOCKED)
    device.restore_clocks(LOCKED)
    assert fake_nvml.boards[0].lock_mhz is None


def test_a_knob_that_the_driver_has_and_the_board_has_not_is_said(fake_nvml: Any) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault("set_locked", code=NOT_SUPPORTED)
    with pytest.raises(ClockControlError, match=r"not supported by this GPU; locked clocks need a Volta"):
        device.lock_sm_clock(1200)


def test_a_lost_board_is_no_matter_of_rights(fake_nvml: Any) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault("set_locked", code=LOST)
    with pytest.raises(DeviceError, match="the GPU is lost") as caught:
        device.lock_sm_clock(1200)
    assert not isinstance(caught.value, ClockControlError)


def test_where_clocks_cannot_be_set_nothing_is_tried_but_giving_back(
    make_fake_nvml: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = make_fake_nvml()
    fake.boards[0].application_restricted = 1
    monkeypatch.setattr("energyopt.applier.devices.nvml.rights.may_administer", lambda: False)
    device = open_nvml()
    for attempt in (device.find_clocks, lambda: device.lock_sm_clock(1200)):
        with pytest.raises(
            ClockControlError, match="this user may not set clocks; setting clocks needs root"
        ):
            attempt()
    assert fake.calls() == []
    device.restore_clocks(LOCKED)
    assert calls(fake) == [("reset_locked_clocks", (0, 0))]


@pytest.mark.usefixtures("fake_nvml")
def test_a_lock_outlives_the_device() -> None:
    """As on real boards: nothing but giving back takes it off."""
    device = open_nvml()
    device.lock_sm_clock(1200)
    device.close()
    assert open_nvml().state().sm_clock_mhz == 1200
