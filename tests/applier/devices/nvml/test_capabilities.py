from collections.abc import Callable
from typing import Any

import pytest

from energyopt.applier.devices.interface import Capabilities, ClockKnob
from energyopt.applier.devices.nvml.opening import open_nvml

NOT_SUPPORTED = 3
FAULTS = {
    "energy": "energy_counter",
    "clock": "sm_clock",
    "throttle": "throttle_reasons",
    "temperature": "temperature",
    "supported": "supported_clocks",
}


def probe() -> Capabilities:
    return open_nvml().capabilities


@pytest.fixture
def no_rights(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called once the fake driver is there: its fixture grants the rights."""
    rights = "energyopt.applier.devices.nvml.rights.may_administer"
    return lambda: monkeypatch.setattr(rights, lambda: False)


@pytest.mark.parametrize(("kind", "field"), FAULTS.items())
def test_each_lack_has_a_reason_and_a_remedy(fake_nvml: Any, kind: str, field: str) -> None:
    fake_nvml.boards[0].fault(kind, code=NOT_SUPPORTED)
    capabilities = probe()
    assert getattr(capabilities, field) == "not supported by this GPU"
    assert set(capabilities.remedies) == {field}
    others = {"energy_counter", "power", "sm_clock", "throttle_reasons", "temperature", "supported_clocks"}
    assert all(getattr(capabilities, other) is None for other in others - {field})
    assert capabilities.set_clocks is None


def test_power_lacks_only_where_both_readings_do(fake_nvml: Any) -> None:
    fake_nvml.boards[0].fault("power_field", code=NOT_SUPPORTED)
    assert probe().power is None
    fake_nvml.boards[0].fault("power", code=NOT_SUPPORTED)
    assert probe().power == "not supported by this GPU"


def test_probing_sets_nothing(fake_nvml: Any) -> None:
    probe()
    assert fake_nvml.calls() == []


def test_locked_clocks_come_first(fake_nvml: Any) -> None:
    assert probe().knob is ClockKnob.LOCKED_CLOCKS
    fake_nvml.boards[0].fault("get_application", code=NOT_SUPPORTED)
    assert probe().knob is ClockKnob.LOCKED_CLOCKS


def test_a_pascal_has_application_clocks_alone(fake_nvml: Any) -> None:
    fake_nvml.boards[0].capability = 60
    assert probe().knob is ClockKnob.APPLICATION_CLOCKS


def test_an_old_driver_has_application_clocks_alone(make_fake_nvml: Callable[..., Any]) -> None:
    make_fake_nvml(1, "NO_LOCKED_CLOCKS")
    assert probe().knob is ClockKnob.APPLICATION_CLOCKS


def test_without_any_knob_nothing_can_be_set(make_fake_nvml: Callable[..., Any]) -> None:
    fake = make_fake_nvml(1, "NO_LOCKED_CLOCKS")
    fake.boards[0].fault("get_application", code=NOT_SUPPORTED)
    capabilities = probe()
    assert capabilities.knob is None
    assert capabilities.set_clocks == "neither locked nor application clocks are supported"
    assert "Volta or newer" in capabilities.remedies["set_clocks"]


def test_without_rights_freed_application_clocks_are_used(
    fake_nvml: Any, no_rights: Callable[[], None]
) -> None:
    no_rights()
    assert probe().knob is ClockKnob.APPLICATION_CLOCKS
    fake_nvml.boards[0].fault("restriction", code=NOT_SUPPORTED)
    assert probe().knob is None


def test_without_rights_the_missing_one_and_the_ways_out_are_named(
    fake_nvml: Any, no_rights: Callable[[], None]
) -> None:
    no_rights()
    fake_nvml.boards[0].application_restricted = 1
    capabilities = probe()
    assert capabilities.knob is None
    assert capabilities.set_clocks == "this user may not set clocks"
    ways_out = ("root", "--cap-add SYS_ADMIN", "nvidia-smi -acp UNRESTRICTED", "prolog", "--clocks current")
    assert all(way in capabilities.remedies["set_clocks"] for way in ways_out)


def test_mig_refuses_clocks_whatever_the_rights(fake_nvml: Any) -> None:
    fake_nvml.boards[0].mig_mode = 1
    capabilities = probe()
    assert capabilities.knob is None
    assert capabilities.set_clocks == "refused: the board is shared by MIG slices"
    assert "nvidia-smi -mig 0" in capabilities.remedies["set_clocks"]
