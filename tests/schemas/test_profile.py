import errno
import json
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyopt.schemas.errors import EnergyoptError, FileFormatError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import (
    ARROW_SCHEMA,
    EnergySource,
    Level,
    Profile,
    ProfileRow,
    check_measurement,
    read_profile,
    write_profile,
)

FULL_ROW = ProfileRow(
    level=Level.KERNEL,
    stage=1,
    chunk=0,
    op=OpKind.BACKWARD_WEIGHT,
    partition="attention",
    kernel="rope",
    count=3,
    execution="overlapped",
    comm_launch="rope",
    comm_sms=15,
    sm_clock_mhz=1410,
    achieved_sm_clock_mhz=1395,
    time_s=0.1 + 0.2,
    time_std_s=1e-9,
    energy_j=1 / 3,
    energy_std_j=0.0,
    samples=12,
    energy_source=EnergySource.COUNTER,
    temperature_start_c=41.5,
    temperature_end_c=64.0,
    throttle=2**40,
    rank=7,
    invalid="clock not held",
)

Edit = Callable[[pa.Table], pa.Table]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile.parquet"


def column(table: pa.Table, name: str, kind: pa.DataType, value: object) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, pa.field(name, kind), pa.array([value] * len(table), kind))


def header(table: pa.Table, **members: object) -> pa.Table:
    found = json.loads(table.schema.metadata[b"energyopt"]) | members
    return table.replace_schema_metadata({"energyopt": json.dumps(found)})


def test_round_trip(small_profile: Profile, path: Path) -> None:
    profile = replace(small_profile, rows=(*small_profile.rows, FULL_ROW))
    write_profile(path, profile)
    found = read_profile(path)
    assert found.metadata == profile.metadata
    assert set(found.rows) == set(profile.rows)
    assert len(found.rows) == len(profile.rows)
    assert found.sha256() == profile.sha256()


def test_fitted_times_are_kept(small_profile: Profile, path: Path) -> None:
    metadata = replace(small_profile.metadata, p2p_time_s=0.0, fixed_time_s=0.25)
    write_profile(path, replace(small_profile, metadata=metadata))
    assert read_profile(path).metadata == metadata


def test_the_file_has_the_columns_of_the_design(small_profile: Profile, path: Path) -> None:
    write_profile(path, small_profile)
    schema = pq.read_schema(path)
    assert schema.names == ARROW_SCHEMA.names == [item.name for item in fields(ProfileRow)]
    assert [schema.field(name).type for name in ("stage", "comm_sms", "samples")] == [pa.int32()] * 3
    assert schema.field("throttle").type == pa.int64()
    assert schema.field("invalid").type == pa.string()


def test_absent_stays_null(small_profile: Profile, path: Path) -> None:
    write_profile(path, small_profile)
    table = pq.read_table(path)
    for name in ("stage", "chunk", "comm_sms", "achieved_sm_clock_mhz", "time_std_s", "samples", "rank"):
        assert table.column(name).null_count == len(small_profile.rows)
    for row in read_profile(path).rows:
        assert (row.stage, row.chunk, row.partition, row.comm_sms, row.samples) == (None,) * 5


def test_row_order_changes_nothing(small_profile: Profile, tmp_path: Path) -> None:
    rows = (*small_profile.rows[:2], replace(small_profile.rows[0], stage=0, chunk=0), FULL_ROW)
    seen = set()
    for number, order in enumerate(permutations(rows)):
        profile = replace(small_profile, rows=order)
        write_profile(tmp_path / f"{number}.parquet", profile)
        seen.add((profile.sha256(), (tmp_path / f"{number}.parquet").read_bytes()))
    assert len(seen) == 1


def test_the_digest_covers_what_decides_a_plan(small_profile: Profile) -> None:
    meta, rows = small_profile.metadata, small_profile.rows
    digest = small_profile.sha256()
    assert replace(small_profile, metadata=replace(meta, time="2030-01-01", host="other")).sha256() == digest
    for other in (
        replace(small_profile, metadata=replace(meta, wait_power_w=99.0)),
        replace(small_profile, metadata=replace(meta, device_name="other")),
        replace(small_profile, metadata=replace(meta, gpus_per_stage=2)),
        replace(small_profile, metadata=replace(meta, workload={"model": "big"})),
        replace(small_profile, metadata=replace(meta, fixed_time_s=0.1)),
        replace(small_profile, metadata=replace(meta, p2p_time_s=0.1)),
        replace(small_profile, rows=rows[1:]),
        replace(small_profile, rows=(replace(rows[0], energy_j=301.0), *rows[1:])),
    ):
        assert other.sha256() != digest


def test_every_truncation_is_noticed(small_profile: Profile, path: Path) -> None:
    write_profile(path, small_profile)
    content = path.read_bytes()
    for length in (0, 1, 4, 100, len(content) // 2, len(content) - 8, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError, match=r"profile\.parquet"):
            read_profile(path)


def test_files_that_are_something_else(tmp_path: Path, path: Path) -> None:
    path.write_text("stage,instruction\n")
    with pytest.raises(FileFormatError, match="not a Parquet file, or cut short"):
        read_profile(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(FileFormatError, match="a Parquet file, but none that energyopt wrote"):
        read_profile(path)
    for metadata in (b"{", b"\xff", b"[" * 100_000):
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"energyopt": metadata}), path)
        with pytest.raises(FileFormatError, match="its energyopt metadata is damaged"):
            read_profile(path)
    with pytest.raises(FileFormatError, match=r"cannot read .*No such file"):
        read_profile(tmp_path / "absent.parquet")
    with pytest.raises(FileFormatError, match=r"cannot read .*directory"):
        read_profile(tmp_path)


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda t: t.drop_columns(["energy_j"]), "column 'energy_j' is missing"),
        (lambda t: column(t, "stage", pa.float64(), 1.0), "column 'stage' holds double, expected int32"),
        (lambda t: column(t, "rank", pa.null(), None), "column 'rank' holds null, expected int32"),
        (lambda t: column(t, "energy_j", pa.string(), "1"), "'energy_j' holds string, expected double"),
        (lambda t: column(t, "time_s", pa.float64(), None), "column 'time_s' is null in row 0"),
        (lambda t: column(t, "op", pa.string(), "recompute"), "op 'recompute' in row 0; known are forward"),
        (lambda t: column(t, "level", pa.string(), "layer"), "level 'layer' in row 0; known are kernel"),
        (lambda t: column(t, "energy_source", pa.string(), "guess"), "energy_source 'guess' in row 0"),
        (lambda t: column(t, "time_s", pa.float64(), 0.0), "time_s must be a positive number .* row 0"),
        (lambda t: column(t, "energy_j", pa.float64(), -1.0), "energy_j must be a positive number"),
        (lambda t: column(t, "count", pa.int32(), 0), "count must be at least 1, not 0 in row 0"),
        (lambda t: column(t, "time_std_s", pa.float64(), float("nan")), "'time_std_s' holds nan in row 0"),
        (lambda t: column(t, "stage", pa.int32(), -1), "column 'stage' holds -1 in row 0"),
        (lambda t: header(t, schema_version=2), "schema version 2, this tool reads up to 1; upgrade"),
        (lambda t: header(t, format="energyopt-frontier"), "a file of format 'energyopt-frontier'"),
        (lambda t: header(t, device_kind="guess"), "'guess' is none of nvml, .* @ metadata.device_kind"),
        (lambda t: header(t, wait_power_w=None), "expected a number, found None @ metadata.wait_power_w"),
        (lambda t: header(t, wait_power_w=float("nan")), "expected a finite number"),
        (lambda t: header(t, gpus_per_stage=0), "expected at least 1, found 0 @ metadata.gpus_per_stage"),
        (lambda t: header(t, workload=["x"]), "expected an object @ metadata.workload"),
        (lambda t: header(t, workload={"x": []}), "expected a number, .* @ metadata.workload.x"),
    ],
)  # fmt: skip
def test_a_fault_is_named(small_profile: Profile, path: Path, edit: Edit, complaint: str) -> None:
    write_profile(path, small_profile)
    pq.write_table(edit(pq.read_table(path)), path)
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read_profile(path)
    assert "profile.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"level": Level.PARTITION, "partition": None},
            "column 'partition' is empty in row 0, .* a partition",
        ),
        ({"level": Level.PARTITION, "partition": ""}, "column 'partition' is empty in row 0"),
        ({"level": Level.PARTITION, "comm_sms": 0}, "comm_sms must be at least 1 or absent, not 0 in row 0"),
        (
            {"level": Level.PARTITION, "nanobatches": 0},
            "nanobatches must be at least 1 or absent, not 0 in row",
        ),
        ({"nanobatches": -1}, "nanobatches must be at least 1 or absent, not -1 in row 0"),
        ({"kernel": None}, "column 'kernel' is empty in row 0, which is of a kernel"),
    ],
)
def test_rows_that_do_not_say_what_they_are_of(
    small_profile: Profile, path: Path, given: dict[str, object], complaint: str
) -> None:
    write_profile(path, replace(small_profile, rows=(replace(FULL_ROW, **given),)))  # type: ignore[arg-type]
    with pytest.raises(FileFormatError, match=complaint):
        read_profile(path)


def test_an_invalid_row_may_hold_what_was_read(small_profile: Profile, path: Path) -> None:
    row = replace(small_profile.rows[0], energy_j=-4.0, invalid="counter went backwards")
    write_profile(path, replace(small_profile, rows=(row,)))
    assert read_profile(path).rows == (row,)


def test_unknown_columns_and_members_are_no_fault(small_profile: Profile, path: Path) -> None:
    write_profile(path, small_profile)
    table = pq.read_table(path)
    table = table.append_column("note", pa.array(["x"] * len(table)))
    pq.write_table(header(table, note="x"), path)
    assert read_profile(path).sha256() == small_profile.sha256()


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), EnergyoptError),
        (MemoryError(), MemoryError),
    ],
)
def test_a_failing_write_keeps_the_earlier_file(
    small_profile: Profile,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
    error: type[BaseException],
) -> None:
    def half_a_table(_table: object, where: Path) -> None:
        where.write_bytes(b"PAR1")
        raise failure

    write_profile(path, small_profile)
    before = path.read_bytes()
    monkeypatch.setattr(pq, "write_table", half_a_table)
    with pytest.raises(error):
        write_profile(path, replace(small_profile, rows=small_profile.rows[:1]))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ((0.1, 20.0, 1410), None),
        ((0.0, 20.0, 1410), "time_s"),
        ((float("inf"), 20.0, 1410), "time_s"),
        ((0.1, float("nan"), 1410), "energy_j"),
        ((0.1, -1.0, 1410), "energy_j"),
        ((0.1, 20.0, 0), "sm_clock_mhz"),
    ],
)
def test_impossible_measurements(numbers: tuple[float, float, int], problem: str | None) -> None:
    found = check_measurement(*numbers)
    assert found is None if problem is None else problem in str(found)
