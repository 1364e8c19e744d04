import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyopt.profiler.importers.interface import ImportedProfile
from energyopt.profiler.importers.lowtime import read_lowtime_csv
from energyopt.schemas.errors import EnergyoptError, FileFormatError

HEADER = "stage,instruction,frequency,time,energy\n"
GRID = """\
0,forward,1410,0.05,20
0,backward,1410,0.10,44
0,forward,1200,0.06,18
0,backward,1200,0.12,40
1,forward,1410,0.05,20
1,backward,1410,0.10,44
1,forward,1200,0.06,18
1,backward,1200,0.12,40
"""

Read = Callable[..., ImportedProfile]


def costs(imported: ImportedProfile) -> dict[tuple[int | None, str, int], tuple[float, float]]:
    return {(r.stage, r.op, r.sm_clock_mhz): (r.time_s, r.energy_j) for r in imported.profile.rows}


@pytest.mark.parametrize(
    ("row", "time_unit", "energy_unit", "want"),
    [
        ("0,forward,1410,50,12500", "ms", "mJ", (0.05, 12.5)),
        ("0,forward,1410,50000,12500000", "us", "uJ", (0.05, 12.5)),
        ("0,forward,1410,36,0.0025", "s", "kWh", (36.0, 9000.0)),
    ],
)
def test_units(read: Read, row: str, time_unit: str, energy_unit: str, want: tuple[float, float]) -> None:
    imported = read(HEADER + row + "\n", time_unit=time_unit, energy_unit=energy_unit)
    assert costs(imported)[0, "forward", 1410] == want


@pytest.mark.parametrize(
    ("row", "told", "complaint"),
    [
        (
            "0,forward,1410,0.05,12500",
            {},
            r"2.5e\+05 W over 0.05 s, outside 1 to 2000 W; .*--energy-unit mJ \(250 W\)",
        ),
        ("0,forward,1410,50,12.5", {}, r"0.25 W over 50 s, .*--time-unit ms \(250 W\)"),
        ("0,forward,1410,36,0.0025", {}, r"--energy-unit kWh \(250 W\)"),
        ("0,forward,1410,0.05,12.5", {"energy_unit": "mJ"}, r"--energy-unit J \(250 W\)"),
        ("0,forward,1410,0.05,12.5", {"time_unit": "ms"}, r"--time-unit s \(250 W\)"),
        ("0,forward,1410,1,601", {"power_limit_w": 400.0}, "601 W over 1 s, outside 1 to 600 W"),
        ("0,forward,1410,1,1e300", {}, "no unit would explain it"),
    ],
)
def test_power_that_no_board_has(read: Read, row: str, told: dict[str, object], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read(HEADER + row + "\n", **told)
    assert "line 2, column energy" in str(caught.value)


def test_power_bounds_are_inclusive(read: Read) -> None:
    read(HEADER + "0,forward,1410,1,600\n", power_limit_w=400.0)
    read(HEADER + "0,forward,1410,1,2000\n0,forward,1200,1,1\n", wait_power_w=0.0)


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"wait_power_w": -1.0}, "wait power"),
        ({"wait_power_w": math.nan}, "wait power"),
        (
            {"wait_power_w": 83640.0},
            r"wait power must be at least 0 and below 2000 W, not 83640.0; .* mW, .* 83.64 W",
        ),
        ({"wait_power_w": math.inf}, "wait power must be .*, not inf$"),
        ({"wait_power_w": 600.0, "power_limit_w": 400.0}, "wait power must be at least 0 and below 600 W"),
        ({"power_limit_w": 0.0}, "power limit"),
        ({"power_limit_w": math.inf}, "power limit"),
        ({"power_limit_w": 400000.0}, "at most 2000 W, not 400000.0; it looks like mW, which would be 400 W"),
        ({"device_name": " "}, "name of the GPU is empty"),
        ({"device_name": "A100\udcff"}, r"the GPU, 'A100\\udcff', holds '\\udcff'"),
        ({"device_name": "A\n100"}, r"holds '\\n'; give a name of printable characters"),
        ({"time_unit": "min"}, "unknown unit 'min'; known are s, ms, us"),
        ({"energy_unit": "MJ"}, "unknown unit 'MJ'; known are J, mJ, uJ, kWh"),
    ],
)
def test_impossible_settings(read: Read, told: dict[str, object], complaint: str) -> None:
    with pytest.raises(EnergyoptError, match=complaint):
        read(HEADER + GRID, **told)


@pytest.mark.parametrize(
    ("row", "told", "complaint"),
    [
        ("0,forward,1410,5e7,5e9", {}, r"5e\+07 s, outside 1e-09 to 1e\+06 s; did you mean .* us \(50 s\)\?"),
        ("0,forward,1410,1e-10,1e-8", {}, "1e-10 s, outside .*; no unit would explain it"),
        ("0,forward,1410,0.0005,1e-7", {"time_unit": "us"}, r"--time-unit s \(0.0005 s\) or --time-unit ms"),
        ("0,forward,1410,1e-320,1e-8", {"time_unit": "us"}, "0 s, outside"),
    ],
)
def test_times_that_no_operation_has(read: Read, row: str, told: dict[str, object], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read(HEADER + row + "\n", **told)
    assert "line 2, column time" in str(caught.value)


def test_time_bounds_are_inclusive(read: Read) -> None:
    """At 100 W."""
    read(HEADER + "0,forward,1410,1e-9,1e-7\n0,forward,1200,1e6,1e8\n", wait_power_w=0.0)


def test_negative_effective_energy_is_a_warning(read: Read) -> None:
    # 300 W of waiting cost 18 J in 0.06 s; every measured energy is at least that, but for one of 17 J
    imported = read(
        HEADER + GRID.replace("1,forward,1200,0.06,18", "1,forward,1200,0.06,17"), wait_power_w=300.0
    )
    assert len(imported.warnings) == 1
    assert "1 of 8 rows" in imported.warnings[0]
    assert "forward of stage 1 at 1200 MHz, -1 J" in imported.warnings[0]


@settings(max_examples=50, deadline=None)
@given(
    time_s=st.floats(min_value=1e-3, max_value=10.0),
    power_w=st.floats(min_value=1.01, max_value=1999.0),
)
def test_joules_and_millijoules_agree(
    tmp_path_factory: pytest.TempPathFactory, time_s: float, power_w: float
) -> None:
    path = tmp_path_factory.getbasetemp() / "units.csv"
    energy_j = time_s * power_w
    found = []
    for unit, factor in (("J", 1.0), ("mJ", 1000.0)):
        path.write_text(f"{HEADER}0,forward,1410,{time_s!r},{energy_j * factor!r}\n")
        imported = read_lowtime_csv(path, device_name="A100", wait_power_w=0.0, energy_unit=unit)
        found.append(imported.profile.rows[0].energy_j)
    assert found[0] == energy_j
    assert abs(found[1] - energy_j) <= math.ulp(energy_j)
