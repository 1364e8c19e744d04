"""The names of throttle bits are those of the driver's bits that devices report."""

from energyopt.applier.devices.interface import Throttle
from energyopt.planner.verification.throttling import REASONS, throttle_names


def test_every_bit_of_the_devices_has_a_name() -> None:
    assert set(REASONS) == {int(one) for one in Throttle}


def test_bits_are_named_and_harmless_ones_are_not() -> None:
    assert throttle_names(int(Throttle.SW_POWER_CAP | Throttle.HW_THERMAL)) == (
        "power cap",
        "hardware thermal limit",
    )
    assert throttle_names(int(Throttle.GPU_IDLE | Throttle.APPLICATIONS_CLOCKS)) == ()
    assert throttle_names(0x1000) == ("bits 0x1000",)
