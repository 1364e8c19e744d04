import json

import pynvml
import pytest

from energyopt.applier.devices.interface import UNREPRODUCIBLE, ClockKnob, FoundClocks, Throttle

NAMES = {
    Throttle.GPU_IDLE: "GpuIdle",
    Throttle.APPLICATIONS_CLOCKS: "ApplicationsClocksSetting",
    Throttle.SW_POWER_CAP: "SwPowerCap",
    Throttle.HW_SLOWDOWN: "HwSlowdown",
    Throttle.SYNC_BOOST: "SyncBoost",
    Throttle.SW_THERMAL: "SwThermalSlowdown",
    Throttle.HW_THERMAL: "HwThermalSlowdown",
    Throttle.HW_POWER_BRAKE: "HwPowerBrakeSlowdown",
    Throttle.DISPLAY_CLOCK: "DisplayClockSetting",
}


def test_throttle_bits_are_those_of_the_bindings() -> None:
    assert set(NAMES) == set(Throttle)
    for bit, name in NAMES.items():
        assert bit == getattr(pynvml, f"nvmlClocksEventReason{name}")


def test_a_power_cap_can_be_measured_under_and_heat_cannot() -> None:
    assert not UNREPRODUCIBLE & Throttle.SW_POWER_CAP
    assert UNREPRODUCIBLE & Throttle.SW_THERMAL


def test_bits_of_newer_drivers_are_kept() -> None:
    assert int(Throttle(0x204)) == 0x204


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            FoundClocks(knob=ClockKnob.LOCKED_CLOCKS, locked_mhz=(210, 1200)),
            '{"knob": "locked_clocks", "locked_mhz": [210, 1200], "application_mhz": null, '
            '"application_memory_mhz": null}',
        ),
        (
            FoundClocks(knob=ClockKnob.APPLICATION_CLOCKS, application_mhz=1305, application_memory_mhz=1593),
            '{"knob": "application_clocks", "locked_mhz": null, "application_mhz": 1305, '
            '"application_memory_mhz": 1593}',
        ),
    ],
)
def test_what_was_found_is_journaled_whole(found: FoundClocks, text: str) -> None:
    assert json.dumps(found.to_json()) == text
