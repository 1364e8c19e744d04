"""Two ranks of one stage, worked out by hand; their wait powers are 100 W and 60 W, 80 W on average."""

from dataclasses import replace
from typing import Any

import pytest

from energyopt.profiler.distributed.merging import merge
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata

NAMES = ("a", "b")


def _row(rank: int, **changes: Any) -> ProfileRow:
    values: dict[str, Any] = {
        "level": Level.OP,
        "stage": 0,
        "chunk": 0,
        "op": OpKind.FORWARD,
        "sm_clock_mhz": 1410,
        "time_s": 2.0,
        "energy_j": 300.0,
        "energy_source": EnergySource.COUNTER,
        "rank": rank,
    }
    return ProfileRow(**(values | changes))


def _shard(rank: int, *rows: ProfileRow, **changes: Any) -> Profile:
    values: dict[str, Any] = {
        "device_name": "A100",
        "device_kind": DeviceKind.NVML,
        "device_uuid": f"GPU-{rank}",
        "driver": "570.1",
        "wait_power_w": 100.0 if rank == 0 else 60.0,
        "idle_power_w": 50.0 + 10.0 * rank,
        "clock_switch_latency_s": 0.02 + 0.01 * rank,
        "gpus_per_stage": 2,
        "workload": {"model": "tiny"},
        "measurement": {"energy_source": "counter", "windows": 10 + rank, "rejected_windows": rank},
        "source": "tiny",
        "host": f"node{rank}",
    }
    return Profile(metadata=ProfileMetadata(**(values | changes)), rows=rows or (_row(rank),))


def test_the_slowest_rank_and_the_others_wait() -> None:
    fast = _row(0, energy_std_j=3.0, samples=5, achieved_sm_clock_mhz=1410, throttle=4)
    slow = _row(
        1, time_s=3.0, energy_j=360.0, energy_std_j=4.0, samples=4, achieved_sm_clock_mhz=1395, throttle=1
    )
    merged = merge([_shard(0, fast), _shard(1, slow)], NAMES)
    (row,) = merged.profile.rows
    assert row.time_s == 3.0
    assert row.energy_j == pytest.approx(370.0)  # (300 + 80 x 1 + 360) / 2
    assert row.energy_std_j == pytest.approx(2.5)  # half of 5
    assert (row.samples, row.achieved_sm_clock_mhz, row.throttle) == (4, 1395, 5)
    assert row.rank is None and row.invalid is None
    assert merged.warnings == ()


def test_rows_of_a_cut_microbatch_are_others_than_those_of_a_whole_one() -> None:
    def rows(rank: int) -> list[ProfileRow]:
        return [
            _row(
                rank,
                level=Level.PARTITION,
                partition="p",
                execution="sequential",
                nanobatches=parts,
                time_s=time_s,
            )
            for parts, time_s in ((1, 2.0 + rank), (2, 1.0 + rank), (None, 4.0))
        ]

    merged = merge([_shard(rank, *rows(rank)) for rank in (0, 1)], NAMES)
    assert {(row.nanobatches, row.time_s) for row in merged.profile.rows} == {(1, 3.0), (2, 2.0), (None, 4.0)}


def test_what_is_said_of_the_whole() -> None:
    metadata = merge([_shard(0), _shard(1)], NAMES).profile.metadata
    assert (metadata.wait_power_w, metadata.idle_power_w) == (80.0, 55.0)
    assert metadata.clock_switch_latency_s == pytest.approx(0.03)
    assert metadata.device_uuid is None
    assert metadata.host == "node0, node1"
    assert metadata.gpus_per_stage == 2
    assert metadata.measurement == {
        "energy_source": "counter",
        "windows": 21,
        "rejected_windows": 1,
        "ranks": 2,
        "boards": "GPU-0, GPU-1",
    }


def test_each_rank_knows_the_order_of_its_own_stage() -> None:
    orders = [{OpKey(rank, 0, OpKind.FORWARD): ("attention", f"mlp{rank}")} for rank in (0, 1)]
    merged = merge([_shard(rank, partition_order=orders[rank]) for rank in (0, 1)], NAMES)
    assert merged.profile.metadata.partition_order == orders[0] | orders[1]


def test_how_it_was_measured_is_said_of_all_ranks() -> None:
    """The coarsest tick, the worst ratio, the sum of what was lost; half of 5 W is the mean's half width."""
    first = {"tick_s": 0.02, "counter_over_power": 0.9, "wait_power_half_width_w": 3.0, "windows": 4}
    second = {"tick_s": 0.1, "counter_over_power": 1.05, "wait_power_half_width_w": 4.0, "windows": 5}
    merged = merge([_shard(0, measurement=first), _shard(1, measurement=second)], NAMES)
    assert merged.profile.metadata.measurement == {
        "tick_s": 0.1,
        "counter_over_power": 0.9,
        "wait_power_half_width_w": pytest.approx(2.5),
        "windows": 9,
        "ranks": 2,
        "boards": "GPU-0, GPU-1",
    }
    del second["wait_power_half_width_w"]
    merged = merge([_shard(0, measurement=first), _shard(1, measurement=second)], NAMES)
    assert "wait_power_half_width_w" not in merged.profile.metadata.measurement


def test_stages_on_different_ranks_stand_side_by_side() -> None:
    merged = merge([_shard(0), _shard(1, _row(1, stage=1, time_s=3.0))], NAMES)
    rows = {row.stage: row for row in merged.profile.rows}
    assert (rows[0].time_s, rows[0].energy_j, rows[0].invalid) == (2.0, 300.0, None)
    assert (rows[1].time_s, rows[1].energy_j, rows[1].invalid) == (3.0, 300.0, None)


def test_a_row_that_one_rank_of_the_stage_lacks_is_invalid() -> None:
    """The rank that is missing may be the slowest."""
    low = _row(0, sm_clock_mhz=1200)
    merged = merge([_shard(0, _row(0), low), _shard(1)], NAMES)
    found = {row.sm_clock_mhz: row.invalid for row in merged.profile.rows}
    assert found == {1410: None, 1200: "rank 1 has no such row"}


def test_a_kernel_serves_every_stage_and_needs_no_other_rank() -> None:
    kernel = {"level": Level.KERNEL, "stage": None, "chunk": None, "partition": "p", "kernel": "k"}
    merged = merge([_shard(0, _row(0), _row(0, **kernel)), _shard(1)], NAMES)
    assert [row.invalid for row in merged.profile.rows] == [None, None]


def test_one_invalid_row_makes_the_merged_one_invalid() -> None:
    merged = merge([_shard(0), _shard(1, _row(1, invalid="throttled by HW_THERMAL"))], NAMES)
    assert merged.profile.rows[0].invalid == "rank 1: throttled by HW_THERMAL"


def test_communication_at_other_sm_counts_stays_apart() -> None:
    shards = [_shard(rank, _row(rank, comm_sms=None), _row(rank, comm_sms=8)) for rank in (0, 1)]
    assert [row.comm_sms for row in merge(shards, NAMES).profile.rows] == [None, 8]


def test_different_drivers_are_told() -> None:
    (warning,) = merge([_shard(0, driver="580.2"), _shard(1)], NAMES).warnings
    assert warning == "the ranks were measured under different drivers: 570.1, 580.2"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"device_name": "H100"}, "b and a are not of one run: device_name is H100 in the one, A100"),
        ({"workload": {"model": "large"}}, "b and a are not of one run: workload is"),
        ({"power_limit_w": 300.0}, "power_limit_w is 300.0 in the one, None in the other"),
        ({"gpus_per_stage": 1}, "gpus_per_stage is 1 in the one, 2 in the other"),
        (
            {"measurement": {"energy_source": "power_integral"}},
            "b has its energy from the power_integral, a from",
        ),
        ({"device_uuid": "GPU-0", "host": "node0"}, "board GPU-0 stands in both a and b"),
    ],
)
def test_parts_of_different_runs_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        merge([_shard(0), _shard(1, **changes)], NAMES)


def test_one_rank_twice_is_refused() -> None:
    twice = replace(_shard(1), rows=(_row(0),))
    with pytest.raises(ProfileError, match="rank 0 stands in both a and b; each may count only once"):
        merge([_shard(0), twice], NAMES)
