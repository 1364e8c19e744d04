"""Partition rows of a profile as tables: ways, configurations, and what overlapping brings."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.tables import Table
from energyopt.planner.views.measured import measured_tables, measured_to_json
from energyopt.planner.views.partitions import gain_table, gains, has_configurations, partition_table
from energyopt.planner.views.profile import profile_tables
from energyopt.planner.views.summary import profile_to_json
from energyopt.schemas.files import canonical_json
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow

WAYS = (  # nanobatches, count, SMs, launch point, time_s at 1400 MHz, energy_j at 1400 MHz
    (1, 14, None, None, 2.0, 90.0),
    (2, 28, None, None, 1.1, 48.0),
    (2, 28, None, "norm", 0.9, 46.0),
    (2, 28, 3, "norm", 0.8, 44.0),
    (2, 28, 12, "rope", 0.7, 45.0),
    (None, 1, None, None, 0.1, 5.0),
)


def _rows(stage: int | None, factor: float = 1.0) -> list[ProfileRow]:
    return [
        ProfileRow(
            level=Level.PARTITION,
            stage=stage,
            chunk=0,
            op=OpKind.FORWARD,
            partition="mlp" if nanobatches else "embedding",
            count=count,
            execution="overlapped" if launch else "sequential",
            comm_sms=sms,
            comm_launch=launch,
            nanobatches=nanobatches,
            sm_clock_mhz=clock,
            time_s=factor * time_s * 1400 / clock,
            energy_j=factor * energy_j * clock / 1400,
            energy_source=EnergySource.MODEL,
        )
        for nanobatches, count, sms, launch, time_s, energy_j in WAYS
        for clock in (1400, 700)
    ]


@pytest.fixture
def overlapped(small_profile: Profile) -> Profile:
    """Three stages that cost the same, and one that takes 10 % longer, beside the small profile's operations."""
    rows = [row for stage in (2, 1, 0) for row in _rows(stage)]
    return replace(small_profile, rows=(*small_profile.rows, *_rows(3, 1.1), *rows))


def _dicts(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_a_line_for_each_partition_and_way(overlapped: Profile) -> None:
    """At 700 MHz everything takes twice as long and half the energy."""
    rows = _dicts(partition_table(overlapped))
    assert [(row["partition"], row["stages"], row["way"], row["rows"]) for row in rows] == [
        ("embedding", "0 to 2", "however cut, sequential", "2"),
        ("embedding", "3", "however cut, sequential", "2"),
        ("mlp", "0 to 2", "whole, sequential", "2"),
        ("mlp", "0 to 2", "2 nanobatches, sequential", "2"),
        ("mlp", "0 to 2", "2 nanobatches, overlapped", "6"),
        ("mlp", "3", "whole, sequential", "2"),
        ("mlp", "3", "2 nanobatches, sequential", "2"),
        ("mlp", "3", "2 nanobatches, overlapped", "6"),
    ]
    assert rows[4] == {
        "partition": "mlp",
        "op": "forward",
        "stages": "0 to 2",
        "way": "2 nanobatches, overlapped",
        "count": "28",
        "SMs": "library's own, 3 to 12 (2)",
        "launched before": "norm, rope",
        "rows": "6",
        "clocks": "2",
        "MHz": "700 to 1400",
        "fastest s": "0.7",
        "least J": "22",
    }


def test_partitions_have_a_table_of_their_own_where_they_run_in_several_ways(overlapped: Profile) -> None:
    costs, partitions = profile_tables(overlapped)[2:4]
    assert {row[0] for row in costs.rows} == {"op"}
    assert partitions == partition_table(overlapped)


def test_sequential_partitions_stand_among_the_costs_as_ever(small_profile: Profile) -> None:
    rows = tuple(replace(row, nanobatches=None) for row in _rows(0) if row.execution == "sequential")
    profile = replace(small_profile, rows=rows)
    assert not has_configurations(profile)
    tables = profile_tables(profile)
    assert len(tables) == 3
    assert {row[0] for row in tables[2].rows} == {"partition"}


def test_rows_that_must_not_be_used_do_not_count(overlapped: Profile) -> None:
    rows = tuple(replace(row, invalid="throttled") if row.comm_sms == 12 else row for row in overlapped.rows)
    found = _dicts(partition_table(replace(overlapped, rows=rows)))[4]
    assert (found["SMs"], found["launched before"], found["rows"], found["fastest s"]) == (
        "library's own, 3 (1)",
        "norm",
        "4",
        "0.8",
    )


def test_what_overlapping_brings(overlapped: Profile) -> None:
    """0.7 s of 1.1 s and 44 J of 48 J, at 1400 MHz."""
    table = gain_table(overlapped)
    assert table is not None
    first, second = _dicts(table)
    assert first == {
        "partition": "mlp",
        "op": "forward",
        "stages": "0 to 2",
        "nanobatches": "2",
        "MHz": "1400",
        "sequential s": "1.1",
        "overlapped s": "0.7",
        "time change": "-36.36 %",
        "SMs": "12",
        "launched before": "rope",
        "sequential J": "48",
        "overlapped J": "44",
        "energy change": "-8.33 %",
    }
    assert (second["stages"], second["sequential s"]) == ("3", "1.21")


def test_it_is_told_at_the_highest_clock_that_has_both(overlapped: Profile) -> None:
    rows = tuple(row for row in overlapped.rows if (row.execution, row.sm_clock_mhz) != ("overlapped", 1400))
    assert {one.sequential.sm_clock_mhz for one in gains(replace(overlapped, rows=rows))} == {700}
    rows = tuple(row for row in overlapped.rows if row.execution != "overlapped")
    assert gain_table(replace(overlapped, rows=rows)) is None


def test_what_was_measured_stays_short(overlapped: Profile, partition_job: Callable[..., Any]) -> None:
    ops, overlap = measured_tables(overlapped)
    assert (len(ops.rows), len(overlap.rows)) == (2, 2)
    many = partition_job(0, whole=1.0, clocks=tuple(range(500, 1400, 5))).profile
    assert len(many.rows) > 5000
    assert [len(table.rows) for table in measured_tables(many)] == [4, 8]


def test_the_order_of_partitions_is_in_the_json(overlapped: Profile) -> None:
    """Keyed by operation in memory, a list of objects in JSON."""
    order = {OpKey(0, 0, OpKind.FORWARD): ("mlp", "embedding")}
    profile = replace(overlapped, metadata=replace(overlapped.metadata, partition_order=order))
    expected = [{"stage": 0, "chunk": 0, "op": "forward", "partitions": ["mlp", "embedding"]}]
    for value in (profile_to_json(profile), measured_to_json(profile)):
        assert json.loads(canonical_json(value))["metadata"]["partition_order"] == expected
    assert profile_tables(profile)[0].columns == ("", "value")


def test_json_has_the_configurations(overlapped: Profile, small_profile: Profile) -> None:
    first = measured_to_json(overlapped)["partitions"][0]
    assert (first["stage"], first["partition"], first["nanobatches"]) == (0, "mlp", 2)
    assert first["sequential"] == {"time_s": 1.1, "energy_j": 48.0}
    assert first["overlapped_fastest"] == {
        "time_s": 0.7,
        "energy_j": 45.0,
        "comm_sms": 12,
        "comm_launch": "rope",
    }
    assert first["overlapped_least_energy"]["comm_sms"] == 3
    assert "partitions" not in measured_to_json(small_profile)
