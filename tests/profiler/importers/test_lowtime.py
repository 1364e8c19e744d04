from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.profiler.importers.interface import ImportedProfile, Importer
from energyopt.profiler.importers.lowtime import read_lowtime_csv
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import EnergySource, Level, read_profile, write_profile
from energyopt.schemas.profile_metadata import DeviceKind

DATA = Path(__file__).resolve().parents[3] / "../shared/data/stage-profiles"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent")

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


def expected(grid: str) -> dict[tuple[int | None, str, int], tuple[float, float]]:
    cells = [line.split(",") for line in grid.split()]
    return {(int(s), op, int(f)): (float(t), float(e)) for s, op, f, t, e in cells}


def test_it_is_an_importer() -> None:
    importer: Importer = read_lowtime_csv
    assert callable(importer)


def test_rows_and_provenance(read: Read) -> None:
    imported = read(HEADER + GRID, power_limit_w=400.0)
    assert costs(imported) == expected(GRID)
    for row in imported.profile.rows:
        assert (row.level, row.chunk, row.count, row.rank) == (Level.OP, 0, 1, None)
        assert row.energy_source is EnergySource.IMPORTED
    metadata = imported.profile.metadata
    assert (metadata.device_name, metadata.device_kind) == ("A100", DeviceKind.IMPORTED)
    assert (metadata.wait_power_w, metadata.power_limit_w, metadata.gpus_per_stage) == (80.0, 400.0, 1)
    assert metadata.source == "stages.csv"
    assert imported.warnings == ()


@needs_data
@pytest.mark.parametrize(
    ("name", "wait_power_w", "clocks", "highest"),
    [("gpt3-175b.a100-sxm-80gb", 83.64, 38, 1410), ("bloom-176b.a40-48gb", 70.38, 60, 1740)],
)
def test_real_files_are_complete(name: str, wait_power_w: float, clocks: int, highest: int) -> None:
    imported = read_lowtime_csv(DATA / f"{name}.csv", device_name="GPU", wait_power_w=wait_power_w)
    assert len(imported.profile.rows) == 8 * 2 * clocks
    assert len(imported.coverage) == 16
    for one in imported.coverage:
        assert (one.clocks, one.lowest_mhz, one.highest_mhz, one.missing) == (clocks, 855, highest, ())
    assert imported.warnings == ()


@needs_data
def test_a_real_value_arrives_unchanged() -> None:
    path = DATA / "gpt3-175b.a100-sxm-80gb.csv"
    found = costs(read_lowtime_csv(path, device_name="A100", wait_power_w=83.64))
    assert found[0, "forward", 1410] == (0.05016166687011708, 23.80547200000007)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEADER + GRID,
        (HEADER + GRID).replace("\n", "\r\n"),
        (HEADER + GRID).rstrip("\n"),
        HEADER + GRID + "\n  \n\n",
        (HEADER + GRID).replace(",", " , "),
        HEADER.title() + GRID,
        HEADER + GRID.upper(),
        HEADER + GRID.replace("1410", "1410.0").replace("1200", "1.2e3"),
        HEADER + GRID.replace("forward", '"forward"'),
    ],
    ids=[
        "bom",
        "crlf",
        "no final newline",
        "blank lines",
        "blanks",
        "header",
        "capitals",
        "floats",
        "quotes",
    ],
)
def test_harmless_variations(read: Read, text: str) -> None:
    assert costs(read(text)) == expected(GRID)


def test_columns_may_stand_in_any_order(read: Read) -> None:
    text = "energy,time,frequency,instruction,stage\n"
    text += "".join(",".join(reversed(line.split(","))) + "\n" for line in GRID.split())
    assert costs(read(text)) == expected(GRID)


def test_every_kind_of_instruction_is_known(read: Read) -> None:
    kinds = [str(kind).title() for kind in OpKind]
    imported = read(HEADER + "".join(f"0,{kind},1410,0.1,30\n" for kind in kinds))
    assert {row.op for row in imported.profile.rows} == set(OpKind)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty; expected a header with stage, instruction, frequency, time, energy"),
        ("\n\n", "empty; expected a header"),
        (HEADER, "a header without any row"),
        ("stage,instruction,time\n0,forward,1\n", "missing column frequency, energy"),
        (HEADER.replace(",", ";") + "0;forward;1410;1;100\n", "missing column stage, .*comma-separated"),
        (HEADER.strip() + ",note\n0,forward,1410,1,100,x\n", "unknown column 'note'"),
        (HEADER.strip() + ",\n0,forward,1410,1,100,\n", "unknown column ''"),
        (HEADER.strip() + ",Time\n0,forward,1410,1,100,1\n", "'time' stands twice"),
        (HEADER + GRID + "1,backward\n", "line 10 is cut short: 2 cells for 5 columns"),
        (HEADER + GRID + "1,backward,1000,0.1,", "line 10, column energy: '' is empty"),
        (HEADER + "0,forward,1410,1,100,9\n", "line 2 is too long: 6 cells for 5 columns"),
        (HEADER + '0,"forward,1410,1,100\n', "line 2: not CSV, or cut short"),
    ],
)
def test_damaged_files(read: Read, text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read(text)
    assert "stages.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("x,forward,1410,1,100", "column stage: 'x' is not a finite number"),
        ("-1,forward,1410,1,100", "column stage: '-1' is not a whole number"),
        ("0.5,forward,1410,1,100", "column stage: '0.5' is not a whole number"),
        ("0,recompute,1410,1,100", "column instruction: 'recompute' is no known instruction; .*grad_sync"),
        ("0,forward,1410.5,1,100", "column frequency: '1410.5' is not a whole number of MHz"),
        ("0,forward,1410000,1,100", "looks like kHz, which would be 1410 MHz"),
        ("0,forward,1410000000,1,100", "looks like Hz, which would be 1410 MHz"),
        ("0,forward,1.41,1,100", "looks like GHz, which would be 1410 MHz"),
        ("0,forward,0,1,100", "'0' is not a clock in MHz"),
        ("0,forward,-1410,1,100", "'-1410' is not a clock in MHz"),
        ("0,forward,1410 MHz,1,100", "'1410 MHz' is not a finite number"),
        ("0,forward,1410,0,100", "column time: '0' is not above zero"),
        ("0,forward,1410,-1,100", "column time: '-1' is not above zero"),
        ("0,forward,1410,nan,100", "column time: 'nan' is not a finite number"),
        ("0,forward,1410,1_0,100", "column time: '1_0' is not a finite number"),
        ("0,forward,1410,1,inf", "column energy: 'inf' is not a finite number"),
        ("0,forward,1410,1,1e999", "column energy: '1e999' is not a finite number"),
        ("0,forward,1410,1,", "column energy: '' is empty"),
        ('0,forward,1410,1,"100,5"', "column energy: '100,5' is not a finite number"),
    ],
)
def test_impossible_values(read: Read, row: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read(HEADER + "0,forward,1200,1,100\n" + row + "\n")
    assert "line 3" in str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "stages.csv"
    path.write_bytes((HEADER + GRID).encode("utf-16"))
    with pytest.raises(FileFormatError, match="not UTF-8"):
        read_lowtime_csv(path, device_name="A100", wait_power_w=80.0)
    with pytest.raises(FileFormatError, match=r"cannot read .*absent.csv"):
        read_lowtime_csv(tmp_path / "absent.csv", device_name="A100", wait_power_w=80.0)


def test_the_power_limit_and_the_workload_are_provenance(read: Read) -> None:
    told = read(HEADER + GRID, power_limit_w=400.0, workload={"model": "gpt3", "tp": 8}).profile
    assert told.metadata.workload == {"model": "gpt3", "tp": 8}
    digests = {
        told.sha256(),
        read(HEADER + GRID, power_limit_w=400.0).profile.sha256(),
        read(HEADER + GRID, power_limit_w=300.0).profile.sha256(),
        read(HEADER + GRID).profile.sha256(),
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("st\udcffages.csv", r"st\udcffages.csv"),
        ("st\nages\x1b.csv", r"st\nages\x1b.csv"),
        ("Stufen für β.csv", "Stufen für β.csv"),
    ],
    ids=["surrogate", "control", "letters"],
)
def test_a_file_name_is_kept_printable(tmp_path: Path, name: str, kept: str) -> None:
    path, target = tmp_path / name, tmp_path / "profile.parquet"
    path.write_text(HEADER + GRID.replace("1,backward,1200,0.12,40\n", ""))
    imported = read_lowtime_csv(path, device_name="A100", wait_power_w=80.0, strict=False)
    write_profile(target, imported.profile)
    assert read_profile(target).metadata.source == kept
    assert imported.warnings[0].startswith(kept + ": ")
