from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.importers.kareus.logs import Log, read_log
from energyopt.schemas.errors import FileFormatError, ProfileError

Record = Callable[..., dict[str, Any]]
WriteLog = Callable[[Path, Iterable[object]], Path]
Reading = Callable[..., Log]

NOTES = {
    "selected_dynamic": True, "selected_real": False, "selected_time": False, "selected_uncertainty": True,
    "pred_time_s": 0.005, "pred_energy_eff_j": -0.1, "pred_energy_real_j": None,
}  # fmt: skip


@pytest.fixture
def reading(tmp_path: Path, write_log: WriteLog) -> Reading:
    def read(*records: object, keep_first: bool = False) -> Log:
        return read_log(write_log(tmp_path / "eval_results.jsonl", records), 2000.0, keep_first=keep_first)

    return read


def test_a_log(reading: Reading, make_record: Record) -> None:
    log = reading(make_record(), "", make_record(1200, "rope_0", "none", 3, **NOTES) | {"overlap_start": 6})
    first, second = log.measured
    assert (first.line, first.sm_clock_mhz, first.time_s, first.energy_j) == (1, 1410, 5e-3, 1.25)
    assert (first.config.start, first.config.end, first.config.sms, first.config.block) == (
        "4",
        "8",
        24,
        1024,
    )
    assert (second.line, second.config.start, second.config.end) == (3, "6", None)
    assert (log.clocks_mhz, log.repeated) == ({1200, 1410}, 0)


@pytest.mark.parametrize(
    ("launch", "end", "expected"),
    [
        ("rope_0", "norm_1", ("rope_0", "norm_1")),
        ("norm_0", "none", ("norm_0", None)),
        ("none", "none", (None, None)),
        (-1, -1, (None, None)),
        ("none", 8, (None, None)),
        ("4", "8", ("4", "8")),
        (0, 0, ("0", "0")),
    ],
)
def test_windows(
    reading: Reading, make_record: Record, launch: object, end: object, expected: tuple[object, object]
) -> None:
    config = reading(make_record(launch=launch, end=end)).measured[0].config
    assert (config.start, config.end) == expected


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"freq": 1410, "overlap_st', r"not JSON, or cut short: .*\(column \d+\)"),
        ('{"freq": 1410', "not JSON, or cut short"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"freq": 1410, "freq": 1200}', "the key 'freq' stands twice"),
        ("[" * 100_000, "cut short|recursion"),
        ("[1410, 4, 8]", r"expected an object @ \$"),
        ("null", r"expected an object"),
    ],
)
def test_lines_that_are_damaged(reading: Reading, make_record: Record, line: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=f"eval_results.jsonl: line 2: .*({complaint})") as caught:
        reading(make_record(), line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["freq", "overlap_start", "overlap_end", "sm", "block", "time_s", "energy_j"])
def test_missing_keys(reading: Reading, make_record: Record, key: str) -> None:
    with pytest.raises(FileFormatError, match=rf"line 1: missing field @ \$\.{key}"):
        reading(without(make_record(), key))


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("freq", "1410", "expected an integer, found '1410' @ $.freq"),
        ("freq", 1410.0, "expected an integer, found 1410.0"),
        ("freq", True, "expected an integer, found True"),
        ("freq", 1410000, "1410000 is not a clock in MHz; it looks like kHz"),
        ("overlap_start", None, "expected an integer, found None @ $.overlap_start"),
        ("overlap_start", 4.0, "expected an integer, found 4.0"),
        ("overlap_start", -2, "'-2' is no kernel's index or name"),
        ("overlap_end", [8], "expected an integer, found [8] @ $.overlap_end"),
        ("overlap_end", "a-b", "'a-b' is no kernel's index or name"),
        ("overlap_end", 3, "the window ends at kernel 3, before its start at 4"),
        ("sm", 0, "0 SMs; expected 1 to 512"),
        ("sm", 1024, "1024 SMs; expected 1 to 512 (are SMs and block size exchanged?)"),
        ("sm", 24.5, "expected an integer, found 24.5 @ $.sm"),
        ("block", 0, "a block of 0 threads"),
        ("time_s", 0, "expected a number above 0, found 0 @ $.time_s"),
        ("time_s", -1e-3, "expected a number above 0"),
        ("time_s", "5e-3", "expected a number, found '5e-3' @ $.time_s"),
        ("energy_j", False, "expected a number, found False"),
        ("energy_j", 10**400, "expected a finite number"),
        ("selected_real", 1, "expected true or false @ $.selected_real"),
        ("pred_time_s", "soon", "expected a number, found 'soon' @ $.pred_time_s"),
        ("extra", 1, "unknown field 'extra'"),
    ],
)
def test_values_that_cannot_be(
    reading: Reading, make_record: Record, key: str, value: object, complaint: str
) -> None:
    with pytest.raises(FileFormatError) as caught:
        reading(make_record(1200), make_record() | {key: value})
    assert complaint in str(caught.value)
    assert "line 2: " in str(caught.value)


def test_power_that_no_gpu_draws(reading: Reading, make_record: Record) -> None:
    with pytest.raises(
        FileFormatError, match=r"mean power of 2.5e\+05 W over 0.005 s, .* is the energy in mJ\?"
    ):
        reading(make_record(energy_j=1250.0))
    with pytest.raises(FileFormatError, match=r"mean power of 0.25 W over 5 s, .* is the time in ms\?"):
        reading(make_record(time_s=5.0))
    with pytest.raises(FileFormatError, match=r"a time of 5e\+06 s, outside"):
        reading(make_record(time_s=5e6))


def test_an_empty_log(reading: Reading) -> None:
    with pytest.raises(FileFormatError, match="empty; expected a measurement on each line"):
        reading("", "  ")


def test_the_same_configuration_twice(reading: Reading, make_record: Record) -> None:
    records = (make_record(), make_record(1200), make_record(time_s=6e-3))
    with pytest.raises(
        ProfileError, match=r"lines 1 and 3 both measure window 4 to 8, 24 SMs, block 1024 at 1410"
    ):
        reading(*records)
    log = reading(*records, keep_first=True)
    assert [(one.line, one.time_s) for one in log.measured if one.sm_clock_mhz == 1410] == [(1, 5e-3)]
    assert (len(log.measured), log.repeated) == (2, 1)


def test_by_itself_the_end_of_the_window_says_nothing(reading: Reading, make_record: Record) -> None:
    with pytest.raises(ProfileError, match=r"lines 1 and 2 both measure sequential, 24 SMs"):
        reading(make_record(launch=-1, end=-1), make_record(launch="none", end="none"))


def test_indices_and_names_do_not_mix(reading: Reading, make_record: Record) -> None:
    sequential = make_record(launch="none", end="none")
    with pytest.raises(
        ProfileError, match=r"line 2 names a kernel by index \(4\) and line 3 by name \(rope_0\)"
    ):
        reading(sequential, make_record(), make_record(launch="rope_0", end="none"))
