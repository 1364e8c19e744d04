"""Which reading is chosen; its meaning by architecture is the NVML reference's (nvmlDeviceGetPowerUsage)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.interface import Absent, PowerMeaning
from energyopt.applier.devices.nvml.opening import open_nvml

NOT_SUPPORTED, MODULE_SCOPE = 3, 1


@pytest.fixture
def superchip(fake_nvml: Any) -> Any:
    """A GH200 whose CPU and memory draw 120 W; its counter covers the module, as zeus's authors measured."""
    board = fake_nvml.boards[0]
    board.name = "NVIDIA GH200 480GB"
    board.capability = 90
    board.power_limit_mw = 900_000
    board.module_extra_w = 120.0
    board.energy_scope = board.usage_scope = MODULE_SCOPE
    return board


def test_the_instantaneous_field_is_preferred(fake_nvml: Any) -> None:
    board = fake_nvml.boards[0]
    board.capability, board.usage_is_average = 90, 1
    board.load = 0.5
    device = open_nvml()
    assert device.identity.power_meaning is PowerMeaning.INSTANT
    board.load = 0.0
    board.idle_mhz = 0
    assert device.power_w() == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("capability", "meaning"),
    [
        (70, PowerMeaning.INSTANT),  # V100
        (80, PowerMeaning.INSTANT),  # GA100: A100, A30
        (86, PowerMeaning.AVERAGE_1S),  # A40
        (89, PowerMeaning.AVERAGE_1S),  # L40
        (90, PowerMeaning.AVERAGE_1S),  # H100
    ],
)
def test_the_older_call_means_what_the_architecture_says(
    make_fake_nvml: Callable[..., Any], capability: int, meaning: PowerMeaning
) -> None:
    fake = make_fake_nvml(1, "NO_FIELD_VALUES")
    fake.boards[0].capability = capability
    device = open_nvml()
    assert device.identity.power_meaning is meaning
    assert device.power_w() == pytest.approx(380.0)


def test_an_unknown_architecture_is_taken_for_averaging(fake_nvml: Any) -> None:
    fake_nvml.boards[0].fault("power_field", code=NOT_SUPPORTED)
    fake_nvml.boards[0].fault("capability", code=NOT_SUPPORTED)
    assert open_nvml().identity.power_meaning is PowerMeaning.AVERAGE_1S


def test_a_blank_in_the_field_leads_to_the_older_call(fake_nvml: Any) -> None:
    fake_nvml.boards[0].fault("power_field", value=0xFFFFFFFF)
    assert open_nvml().power_w() == pytest.approx(380.0)


def test_a_superchip_gives_the_gpus_own_power_and_not_the_modules_energy(superchip: Any) -> None:
    device = open_nvml()
    assert device.identity.scope == "gpu_board"
    assert device.power_w() == pytest.approx(superchip.power_w(1410))
    energy = device.energy_j()
    assert isinstance(energy, Absent)
    assert "covers CPU and memory" in energy.reason
    assert device.capabilities.energy_counter == energy.reason
    assert "integrated from power" in device.capabilities.remedies["energy_counter"]


def test_a_superchip_without_the_gpus_own_power_is_a_module(superchip: Any) -> None:
    superchip.fault("power_field", code=NOT_SUPPORTED, calls=1)  # the first call asks for the GPU's
    device = open_nvml()
    assert device.identity.scope == "module"
    assert device.power_w() == pytest.approx(superchip.power_w(1410) + 120.0)
    start_s, before_j, started_s = time.monotonic(), device.energy_j(), time.monotonic()
    time.sleep(0.2)
    end_s, after_j, ended_s = time.monotonic(), device.energy_j(), time.monotonic()
    assert isinstance(before_j, float)
    assert isinstance(after_j, float)
    least_s, most_s = end_s - started_s - superchip.tick_s, ended_s - start_s + superchip.tick_s
    assert 500.0 * least_s <= after_j - before_j <= 500.0 * most_s


def test_a_superchip_without_scopes_has_the_modules_energy_alone(superchip: Any) -> None:
    superchip.fault("power_field", code=NOT_SUPPORTED)
    device = open_nvml()
    assert device.identity.scope == "module"
    assert device.power_w() == Absent("what the power reading of this superchip covers is not known")
    assert isinstance(device.energy_j(), float)


def test_a_plain_board_is_not_taken_for_a_superchip(fake_nvml: Any) -> None:
    """A driver may answer for the module on any board, with the same reading."""
    fake_nvml.boards[0].module_extra_w = 0.001
    device = open_nvml()
    assert device.identity.scope == "gpu_board"
    assert isinstance(device.energy_j(), float)
