import time
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, Device, State, Throttle
from energyopt.applier.devices.nvml.opening import open_nvml
from energyopt.schemas.errors import DeviceError

NOT_SUPPORTED, LOST, UNKNOWN = 3, 15, 999
ALL_BITS = 2**64 - 1


def test_a_board_says_who_it_is(fake_nvml: Any) -> None:
    board = fake_nvml.boards[0]
    device: Device = open_nvml()
    identity = device.identity
    assert (identity.name, identity.uuid, identity.pci_bus_id) == (board.name, board.uuid, board.pci_bus_id)
    assert (identity.kind, identity.driver, identity.scope) == ("nvml", "570.99.01", "gpu_board")
    assert (identity.power_limit_w, identity.memory_clock_mhz, identity.mig) == (400.0, 1593, False)
    assert device.supported_sm_clocks_mhz() == tuple(range(1410, 209, -15))
    assert device.capabilities.remedies == {}


def test_the_counter_grows_by_power_times_time(fake_nvml: Any) -> None:
    board, device = fake_nvml.boards[0], open_nvml()
    device.lock_sm_clock(705)
    time.sleep(board.tick_s)  # the next tick's energy is all at the new clock
    start_s, before_j, started_s = time.monotonic(), device.energy_j(), time.monotonic()
    time.sleep(0.3)
    end_s, after_j, ended_s = time.monotonic(), device.energy_j(), time.monotonic()
    assert isinstance(before_j, float)
    assert isinstance(after_j, float)
    expected_w = 80.0 + 300.0 / 8  # half the clock, an eighth of the power that follows its cube
    assert device.power_w() == pytest.approx(expected_w)
    least_s, most_s = end_s - started_s - board.tick_s, ended_s - start_s + board.tick_s
    assert expected_w * least_s <= after_j - before_j <= expected_w * most_s


def test_a_counter_that_restarts_is_read_as_it_is(fake_nvml: Any) -> None:
    """A negative difference is for the measurement to see."""
    device = open_nvml()
    before_j = device.energy_j()
    fake_nvml.boards[0].restart_counter()
    after_j = device.energy_j()
    assert isinstance(before_j, float)
    assert isinstance(after_j, float)
    assert after_j < before_j
    assert device.rejected == 0


@pytest.mark.parametrize("blank", [ALL_BITS, 987_654_321_012_345_678])
def test_blanks_in_the_counter_are_rejected_and_counted(fake_nvml: Any, blank: int) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault("energy", value=blank, calls=2)
    assert device.energy_j() == Absent(f"the driver gave {blank} mJ, which no board has used")
    assert isinstance(device.energy_j(), Absent)
    assert device.rejected == 2
    assert isinstance(device.energy_j(), float)


@pytest.mark.parametrize("blank_mw", [0xFFFFFFFF, 10**9, 600_001])
def test_absurd_power_is_rejected_and_counted(fake_nvml: Any, blank_mw: int) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault("power_field", value=blank_mw, calls=1)
    assert isinstance(device.power_w(), Absent)
    assert device.rejected == 1
    assert device.power_w() == pytest.approx(380.0)


def test_the_state_is_read_anew_each_time(fake_nvml: Any) -> None:
    board, device = fake_nvml.boards[0], open_nvml()
    assert device.state() == State(sm_clock_mhz=1410, temperature_c=45.0, throttle=Throttle(0))
    board.temperature_c, board.throttle, board.ceiling_mhz = 88, 0x24, 1005
    hot = Throttle.SW_POWER_CAP | Throttle.SW_THERMAL
    assert device.state() == State(sm_clock_mhz=1005, temperature_c=88.0, throttle=hot)
    board.fault("temperature", value=255)
    board.fault("clock", value=0)
    state = device.state()
    assert isinstance(state.temperature_c, Absent)
    assert isinstance(state.sm_clock_mhz, Absent)
    assert device.rejected == 2


def test_the_setter_can_succeed_and_the_clock_not_be_held(fake_nvml: Any) -> None:
    device = open_nvml()
    fake_nvml.boards[0].held_mhz = 1095
    device.lock_sm_clock(1410)
    assert device.state().sm_clock_mhz == 1095


def test_a_clock_arrives_after_its_lag(fake_nvml: Any) -> None:
    board, device = fake_nvml.boards[0], open_nvml()
    board.set_delay_s, board.clock_lag_s = 0.05, 60.0
    start_s = time.monotonic()
    device.lock_sm_clock(900)
    assert time.monotonic() - start_s >= 0.05
    assert device.state().sm_clock_mhz == 1410
    board.clock_change_s = time.monotonic()
    assert device.state().sm_clock_mhz == 900


def test_reasons_are_read_under_their_older_name(make_fake_nvml: Callable[..., Any]) -> None:
    fake = make_fake_nvml(1, "NO_EVENT_REASONS")
    fake.boards[0].throttle = 0x8
    assert open_nvml().state().throttle == Throttle.HW_SLOWDOWN


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("energy", lambda device: device.energy_j()),
        ("clock", lambda device: device.state().sm_clock_mhz),
        ("throttle", lambda device: device.state().throttle),
        ("temperature", lambda device: device.state().temperature_c),
    ],
)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
def test_a_refused_reading_is_absent_and_not_zero(
    fake_nvml: Any, kind: str, read: Callable[[Device], object], code: int
) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault(kind, code=code)
    reason = {NOT_SUPPORTED: "not supported by this GPU", UNKNOWN: "the driver gave error 999"}[code]
    assert read(device) == Absent(reason)
    fake_nvml.boards[0].heal()
    assert not isinstance(read(device), Absent)


def test_a_board_lost_on_the_way_is_an_error(fake_nvml: Any) -> None:
    device = open_nvml()
    fake_nvml.boards[0].fault("everything", code=LOST)
    for read in (device.energy_j, device.power_w, device.state):
        with pytest.raises(DeviceError, match=r"GPU-00000000-1111.*the GPU is lost"):
            read()


def test_a_board_without_power_limit_or_application_clocks_is_read(fake_nvml: Any) -> None:
    board = fake_nvml.boards[0]
    for kind in ("limit", "get_application", "mig", "supported"):
        board.fault(kind, code=NOT_SUPPORTED)
    device = open_nvml()
    assert device.identity.power_limit_w is None
    assert device.identity.memory_clock_mhz == 1593
    assert device.power_w() == pytest.approx(380.0)
    assert device.supported_sm_clocks_mhz() == ()


def test_clocks_are_listed_for_the_highest_memory_clock_where_the_set_one_is_not_listed(
    fake_nvml: Any,
) -> None:
    fake_nvml.boards[0].application_memory_mhz = 1500
    assert len(open_nvml().supported_sm_clocks_mhz()) == 81
