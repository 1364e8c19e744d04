import pytest

from energyopt.applier.devices.interface import Absent
from energyopt.applier.devices.nvml import sanity


def test_units_are_converted_here() -> None:
    assert sanity.energy_j(1_234_500) == 1234.5
    assert sanity.power_w(287_650, 400.0) == 287.65
    assert sanity.power_limit_w(400_000) == 400.0
    assert sanity.temperature_c(61) == 61.0
    assert sanity.clock_mhz(1410) == 1410


@pytest.mark.parametrize("raw_mj", [-1, 2**64 - 1, 123_456_789_012_345_678, 10**15])
def test_no_board_has_used_so_much(raw_mj: int) -> None:
    assert sanity.energy_j(raw_mj) == Absent(f"the driver gave {raw_mj} mJ, which no board has used")


def test_half_as_much_again_as_the_limit_is_too_much() -> None:
    assert sanity.power_w(600_000, 400.0) == 600.0
    assert sanity.power_w(600_001, 400.0) == Absent("the driver gave 600 W; 0 to 600 W is possible")
    assert isinstance(sanity.power_w(-1, 400.0), Absent)
    assert sanity.power_w(2_700_000, None) == 2700.0
    assert isinstance(sanity.power_w(0xFFFFFFFF, None), Absent)


@pytest.mark.parametrize(
    ("check", "raw"),
    [
        (sanity.power_limit_w, 0),
        (sanity.power_limit_w, 0xFFFFFFFF),
        (sanity.temperature_c, 0xFFFFFFFF),
        (sanity.temperature_c, 255),
        (sanity.clock_mhz, 0),
        (sanity.clock_mhz, 0xFFFFFFFF),
    ],
)
def test_blanks_are_absent(check: object, raw: int) -> None:
    assert callable(check)
    assert isinstance(check(raw), Absent)
