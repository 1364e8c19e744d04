"""What a run has measured; intervals are Student's, 12.706 for two windows and 4.303 for three (95 %)."""

import json
from dataclasses import replace

import pytest

from energyopt.planner.views.measured import measured_table, measured_to_json, not_held, unusable
from energyopt.schemas.files import canonical_json
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import Profile


@pytest.fixture
def measured(small_profile: Profile) -> Profile:
    """The small profile with three windows behind each row, of 1 % spread in time and 2 % in energy."""
    rows = tuple(
        replace(row, time_std_s=row.time_s / 100, energy_std_j=row.energy_j / 50, samples=3)
        for row in small_profile.rows
    )
    return replace(small_profile, rows=rows)


def test_each_op_at_its_highest_clock_and_where_it_is_cheapest(measured: Profile) -> None:
    """Half intervals: 4.303 / sqrt(3) = 2.484 times the spread."""
    table = measured_table(measured)
    forward, backward = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (forward["op"], backward["op"]) == ("forward", "backward")
    assert table.rows[0] == (
        *("forward", "all", "2", "1400", "-", "1", "2.48 %", "300", "4.97 %", "250", "1000", "1.25"),
    )
    assert (backward["energy J"], backward["least J"]) == ("600", "500")
    assert "GPU [bold]x[/bold] (simulated), per op on 1 GPU, gpu_board; wait power 100.0 W" in table.title


def test_the_title_tells_what_the_kernels_really_ran_on(measured: Profile) -> None:
    name = "NVIDIA A100-SXM4-80GB (MIG slice) (kernels on the CPU)"
    other = replace(measured, metadata=replace(measured.metadata, device_name=name))
    assert f"on {name} (simulated), per op" in measured_table(other).title


def test_a_clock_that_was_not_held_is_told(measured: Profile) -> None:
    assert not_held(measured) is None
    rows = tuple(
        replace(row, achieved_sm_clock_mhz=min(row.sm_clock_mhz, 1290) if row.level == "op" else None)
        for row in measured.rows
    )
    capped = replace(measured, rows=rows)
    assert measured_table(capped).rows[0][4] == "1290"
    assert "did not hold 1 of 2 clocks (1400 to 1400 MHz)" in str(not_held(capped))


def test_the_title_says_what_a_microbatch_is(measured: Profile) -> None:
    workload = {"microbatch_size": 4, "sequence_length": 2048, "dtype": "bfloat16"}
    shaped = replace(measured, metadata=replace(measured.metadata, workload=workload))
    assert "(microbatch of 4 x 2048 tokens, bfloat16) on GPU" in measured_table(shaped).title


def test_several_gpus_share_a_stage(measured: Profile) -> None:
    shared = replace(measured, metadata=replace(measured.metadata, gpus_per_stage=8))
    assert "per op on 1 of the 8 GPUs of a stage" in measured_table(shared).title


def test_one_window_gives_no_interval(measured: Profile) -> None:
    rows = tuple(replace(row, time_std_s=None, energy_std_j=None, samples=1) for row in measured.rows)
    assert {row[6] for row in measured_table(replace(measured, rows=rows)).rows} == {"-"}


def test_stages_and_chunks_stand_in_the_model_s_order(measured: Profile) -> None:
    placed = [
        replace(row, stage=stage, chunk=chunk)
        for stage, chunk in ((1, 1), (0, 1), (1, 0), (0, 0))
        for row in measured.rows
    ]
    stages = [row[1] for row in measured_table(replace(measured, rows=tuple(placed))).rows[::2]]
    assert stages == ["0", "0, chunk 1", "1", "1, chunk 1"]


def test_json_has_every_op_at_every_clock(measured: Profile) -> None:
    value = json.loads(canonical_json(measured_to_json(measured)))
    assert value["profile_sha256"] == measured.sha256()
    assert (value["rows"], value["invalid_rows"]) == (5, 1)
    assert [(one["op"], one["sm_clock_mhz"]) for one in value["ops"]] == [
        *(("forward", 1400), ("forward", 1000), ("backward", 1400), ("backward", 1000)),
    ]
    assert value["ops"][0]["time_half_width_s"] == pytest.approx(0.01 * 4.302653 / 3**0.5, rel=1e-6)
    assert value["metadata"]["device_kind"] == "simulated"


def test_rows_that_must_not_be_used(measured: Profile) -> None:
    said = unusable(measured)
    assert said == "1 of 5 rows must not be used, the most of them because: clock not held"
    usable = tuple(row for row in measured.rows if row.invalid is None)
    assert unusable(replace(measured, rows=usable)) is None


def test_an_op_without_a_usable_row_is_left_out(measured: Profile) -> None:
    rows = tuple(
        replace(row, invalid="throttled") if row.op is OpKind.BACKWARD else row for row in measured.rows
    )
    assert [row[0] for row in measured_table(replace(measured, rows=rows)).rows] == ["forward"]
