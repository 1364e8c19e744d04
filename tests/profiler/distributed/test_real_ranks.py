"""`energyopt profile` by several real processes: gloo, torch on the CPU, and the boards of the fake driver."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from energyopt.profiler.measurement.partial import Partial
from energyopt.schemas.profile import Level, Profile, ProfileRow, read_profile
from energyopt.schemas.profile_metadata import DeviceKind

NODE = Path(__file__).with_name("node.py")
LIMIT_S = 120.0
SOON_S = 90.0  # far below the 20 minutes that a rank is waited for; torchrun itself kills after 30 s

MakeNode = Callable[..., Any]
Eventually = Callable[[Callable[[], Any]], None]


@pytest.fixture
def torchrun() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start two ranks with torchrun, in a process group of their own."""
    started: list[subprocess.Popen[str]] = []

    def start(node: Any, *words: str | Path, **environment: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        process = subprocess.Popen(
            [*command, str(NODE), *node.words(*words)],
            env=node.fake.env | node.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)


def _shards(node: Any, size: int) -> list[Profile]:
    return [read_profile(node.folder / f"profile.rank{rank}.parquet") for rank in range(size)]


def _place(row: ProfileRow) -> tuple[object, ...]:
    return (row.level, row.stage, row.op, row.partition, row.kernel, *_way(row), row.sm_clock_mhz)


def _way(row: ProfileRow) -> tuple[object, ...]:
    return (row.execution, row.comm_launch, row.comm_sms, row.nanobatches)


def _check_merged(merged: Profile, shards: list[Profile]) -> None:
    """The slowest rank's time, and the mean energy with the others' wait for it, at the mean wait power."""
    wait_w = fmean(shard.metadata.wait_power_w for shard in shards)
    found: dict[tuple[object, ...], list[ProfileRow]] = defaultdict(list)
    for shard in shards:
        for row in shard.rows:
            found[_place(row)].append(row)
    assert merged.metadata.wait_power_w == pytest.approx(wait_w)
    assert {_place(row) for row in merged.rows} == set(found)
    for row in merged.rows:
        parts = found[_place(row)]
        time_s = max(one.time_s for one in parts)
        assert row.rank is None
        if row.invalid is None:
            assert row.time_s == time_s
            assert row.energy_j == pytest.approx(
                fmean(one.energy_j + wait_w * (time_s - one.time_s) for one in parts)
            )


def _check_board(node: Any, number: int, shard: Profile) -> None:
    """A rank measured its own board: the power in its rows is that of the board's formula."""
    board = node.fake.boards[number]
    assert shard.metadata.device_uuid == board.uuid
    for clock in (1410, 1200):
        powers = [row.energy_j / row.time_s for row in shard.rows if row.sm_clock_mhz == clock]
        assert median(powers) == pytest.approx(board.power_w(clock), rel=0.15)
    assert shard.metadata.wait_power_w == pytest.approx(board.power_w(1410), rel=0.15)


def _check_clocked(node: Any) -> None:
    """Every board was set to each clock, and given back at the end."""
    for board in node.fake.boards:
        calls = [(one.call, one.arguments) for one in node.fake.calls() if one.uuid == board.uuid]
        assert {("set_locked_clocks", (clock, clock)) for clock in (1410, 1200)} <= set(calls)
        assert calls[-1][0] == "reset_locked_clocks"
    assert node.given_back()


def _check_waits(path: Path) -> None:
    """Each rank blocked in a receive, without computing, until the other had slept as long as it was asked to."""
    turns = [json.loads(line) for line in path.read_text().splitlines()]
    receives = [one for one in turns if one["what"] == "receive"]
    serves = [one for one in turns if one["what"] == "serve"]
    for rank in (0, 1):
        mine = sorted((one for one in receives if one["rank"] == rank), key=lambda one: one["from_s"])
        others = sorted((one for one in serves if one["rank"] != rank), key=lambda one: one["from_s"])
        assert len(mine) == len(others) == 6  # three windows, each after a while in which the power settles
        for blocked, served in zip(mine, others, strict=True):
            assert blocked["until_s"] - blocked["from_s"] >= 0.2
            assert blocked["used_s"] < 0.1
            assert (
                min(blocked["until_s"], served["until_s"]) - max(blocked["from_s"], served["from_s"]) >= 0.2
            )


def test_two_ranks_of_one_stage_under_torchrun(
    make_node: MakeNode, torchrun: Callable[..., "subprocess.Popen[str]"], tiny: Path
) -> None:
    node = make_node()
    log = node.folder / "waits.jsonl"
    run = torchrun(node, tiny, "--tensor-parallel", "2", "--comm-sms", "4", WAITS_LOG=str(log))
    said = run.communicate(timeout=LIMIT_S)[0]
    assert run.returncode == 0, said
    merged, shards = read_profile(node.output), _shards(node, 2)
    _check_merged(merged, shards)
    for rank, shard in enumerate(shards):
        assert {row.rank for row in shard.rows} == {rank}
        _check_board(node, rank, shard)
    collectives = {row.kernel for row in merged.rows if (row.kernel or "").startswith("tensor_")}
    assert collectives == {"tensor_all_gather", "tensor_reduce_scatter"}
    assert {row.comm_sms for row in merged.rows} == {None, 4}
    assert merged.metadata.gpus_per_stage == 2
    assert merged.metadata.device_uuid is None
    _check_clocked(node)
    _check_waits(log)
    assert not list(node.folder.glob("*.partial"))
    assert f"wrote {node.output}: {len(merged.rows)} rows" in said


def test_two_replicas_measure_partitions_as_a_whole_under_torchrun(
    make_node: MakeNode, torchrun: Callable[..., "subprocess.Popen[str]"]
) -> None:
    node = make_node()
    run = torchrun(node, "toys:two_replicas", "--overlap")
    said = run.communicate(timeout=LIMIT_S)[0]
    assert run.returncode == 0, said
    merged, shards = read_profile(node.output), _shards(node, 2)
    rows = [row for row in merged.rows if row.level is Level.PARTITION]
    assert {(row.execution, row.comm_launch, row.comm_sms) for row in rows} == {
        ("sequential", None, None)
    } | {("overlapped", launch, sms) for launch in ("first", "second") for sms in (None, 4)}
    assert {(row.partition, row.count, row.nanobatches) for row in rows} == {("layer", 2, 1)}
    assert all(row.invalid is None and row.samples == 2 for row in merged.rows)
    assert {_place(row) for row in shards[0].rows} == {_place(row) for row in shards[1].rows}
    assert merged.metadata.gpus_per_stage == 1
    for rank, shard in enumerate(shards):
        _check_board(node, rank, shard)
    assert node.given_back()


def test_two_replicas_search_together_under_torchrun(
    make_node: MakeNode, torchrun: Callable[..., "subprocess.Popen[str]"]
) -> None:
    """Both measure the same points, in the same order, or their collectives would hang."""
    node = make_node()
    run = torchrun(node, "toys:two_replicas", "--search")
    said = run.communicate(timeout=LIMIT_S)[0]
    assert run.returncode == 0, said
    merged, shards = read_profile(node.output), _shards(node, 2)
    assert "search: " in said
    about = [one.metadata.measurement for one in (merged, *shards)]
    assert len({(one["search"], one["search_measured_points"], one["search_points"]) for one in about}) == 1
    assert {_place(row) for row in shards[0].rows} == {_place(row) for row in shards[1].rows}
    searched = [row for row in merged.rows if row.level is Level.PARTITION]
    assert len(searched) == about[0]["search_measured_points"]
    assert {row.execution for row in searched} == {"sequential", "overlapped"}
    assert not list(node.folder.glob("*.partial"))
    assert node.given_back()


def test_a_killed_rank_ends_the_others_and_the_same_command_goes_on(
    make_node: MakeNode, eventually: Eventually
) -> None:
    """Two stages, of which each rank measures one; nobody but the network tells a rank that the other is gone."""
    node = make_node()
    node.start(2, "toys:two_stages", "--windows", "4")
    node.await_windows(4)
    os.kill(node.pids[1], signal.SIGKILL)
    killed_s = time.monotonic()
    assert node.codes() == [2, -signal.SIGKILL]
    assert time.monotonic() - killed_s < SOON_S
    assert "energyopt: rank 0: another rank is gone" in node.said(0)
    eventually(node.given_back)  # rank 1's guard may have to look twice
    assert not node.output.exists()
    kept = node.windows(0)

    node.start(2, "toys:two_stages", "--windows", "4")
    assert node.codes() == [0, 0]
    assert f"profile.rank0.parquet.partial: {kept} windows are there already" in node.said(0)
    merged, shards = read_profile(node.output), _shards(node, 2)
    for rank, shard in enumerate(shards):
        assert {row.stage for row in shard.rows if row.level is not Level.KERNEL} == {rank}
        assert all(row.kernel.startswith(f"stage{rank}.") for row in shard.rows if row.kernel is not None)
        assert shard.metadata.measurement["windows"] == 6 * 2 * 4  # kernels, clocks and rounds: none twice
        _check_board(node, rank, shard)
    _check_merged(merged, shards)
    assert all(row.invalid is None for row in merged.rows)
    _check_clocked(node)


def test_a_rank_that_waits_for_one_that_hangs_gives_its_board_back_when_told_to_stop(
    make_node: MakeNode, eventually: Eventually
) -> None:
    """Python acts on a signal when it next has its turn: not while the rank is blocked in somebody else's code."""
    node = make_node()
    node.start(2, "toys:two_stages")
    node.await_windows(2)
    os.kill(node.pids[1], signal.SIGSTOP)
    seen = -1
    while seen != node.windows(0):  # until rank 0 has nothing left to do but to wait
        seen = node.windows(0)
        time.sleep(0.5)
    os.kill(node.pids[0], signal.SIGTERM)
    stopped_s = time.monotonic()
    eventually(lambda: node.fake.boards[0].lock_mhz is None)
    assert time.monotonic() - stopped_s < SOON_S / 3
    assert node.fake.boards[1].lock_mhz is not None
    os.kill(node.pids[1], signal.SIGKILL)
    assert node.codes() == [130, -signal.SIGKILL]
    eventually(node.given_back)


def test_ctrl_c_gives_all_boards_back(
    make_node: MakeNode,
    torchrun: Callable[..., "subprocess.Popen[str]"],
    tiny: Path,
    eventually: Eventually,
) -> None:
    node = make_node()
    run = torchrun(node, tiny, "--tensor-parallel", "2", "--windows", "50")
    eventually(lambda: run.poll() is not None or min(node.windows(0), node.windows(1)) >= 3)
    assert run.poll() is None, run.communicate()[0]
    run.send_signal(signal.SIGINT)
    interrupted_s = time.monotonic()
    said = run.communicate(timeout=LIMIT_S)[0]
    assert time.monotonic() - interrupted_s < SOON_S, said
    assert run.returncode != 0
    assert "interrupted; earlier output files are as they were" in said
    assert node.given_back()
    assert not node.output.exists()


def test_ranks_that_wait_for_one_that_never_joins_can_be_stopped(make_node: MakeNode, tiny: Path) -> None:
    node = make_node()
    node.start(2, tiny, rank1={"LOCAL_RANK": "none"})
    time.sleep(1.5)  # by now rank 0 asks the others for their addresses, most likely
    os.kill(node.pids[0], signal.SIGTERM)
    stopped_s = time.monotonic()
    codes = node.codes()
    assert time.monotonic() - stopped_s < SOON_S
    assert codes[0] in (-signal.SIGTERM, 130) and codes[1] == 2
    assert node.fake.calls() == []


def test_a_rank_without_a_driver_stops_all(make_node: MakeNode, tiny: Path) -> None:
    node = make_node()
    node.start(2, tiny, "--tensor-parallel", "2", rank1={"FAKE_NVML_STATE": ""})
    started_s = time.monotonic()
    assert node.codes() == [2, 2]
    assert time.monotonic() - started_s < SOON_S
    for rank in (0, 1):
        assert "energyopt: rank 1: " in node.said(rank)
        assert "driver" in node.said(rank)
        assert "--allow-partial" in node.said(rank)
    assert node.fake.calls() == []
    assert not list(node.folder.glob("*.parquet*"))


def test_a_rank_that_may_not_set_clocks_stops_all(make_node: MakeNode, tiny: Path) -> None:
    node = make_node()
    node.fake.boards[1].fault("set_locked", code=4)  # NVML_ERROR_NO_PERMISSION
    node.start(2, tiny, "--tensor-parallel", "2")
    started_s = time.monotonic()
    assert node.codes() == [2, 2]
    assert time.monotonic() - started_s < SOON_S
    for rank in (0, 1):
        assert "energyopt: rank 1: NVIDIA A100-SXM4-80GB (GPU-00000001-" in node.said(rank)
        assert "nothing is left set" in node.said(rank)
    assert node.given_back()
    assert not node.output.exists()


def test_a_board_that_tells_nothing_stops_all(make_node: MakeNode, tiny: Path) -> None:
    """It can be opened and clocked; that it is of no use shows when it is looked at under load."""
    node = make_node()
    node.fake.boards[1].fault("energy", value=5_000_000)
    for reading in ("power", "power_field"):
        node.fake.boards[1].fault(reading, value=0)
    node.start(2, tiny, "--tensor-parallel", "2")
    started_s = time.monotonic()
    assert node.codes() == [2, 2]
    assert time.monotonic() - started_s < SOON_S
    for rank in (0, 1):
        assert "energyopt: rank 1: this board gives no energy that can be believed" in node.said(rank)
        assert "all ranks stop and nothing is left set; --allow-partial" in node.said(rank)
    assert node.given_back()
    assert not list(node.folder.glob("*.parquet*"))


def test_a_board_at_a_wrong_clock_stops_all_and_once_it_is_healed_the_same_command_measures(
    make_node: MakeNode,
) -> None:
    node = make_node()
    node.fake.boards[1].held_mhz = 1305
    node.start(2, "toys:one_product", "--site-lock-mhz", "none")
    assert node.codes() == [2, 2]
    for rank in (0, 1):
        assert re.search(r"energyopt: rank 1: nothing could be measured: .* ran at 1305 MHz", node.said(rank))
    assert node.given_back()
    assert not node.output.exists()
    node.fake.boards[1].held_mhz = 0
    node.start(2, "toys:one_product", "--site-lock-mhz", "none")
    assert node.codes() == [0, 0]
    assert "4 windows are there already" in node.said(0)  # 2 clocks, 2 rounds
    assert all(row.invalid is None for row in read_profile(node.output).rows)
    assert not list(node.folder.glob("*.partial"))


def test_a_record_that_another_run_writes_stops_all(make_node: MakeNode, tiny: Path) -> None:
    node = make_node()
    with Partial(node.folder / "profile.rank1.parquet.partial", "digest", "another run"):
        node.start(2, tiny)
        assert node.codes() == [2, 2]
    for rank in (0, 1):
        assert f"rank 1: {node.folder}/profile.rank1.parquet.partial is being written by" in node.said(rank)
        assert "--allow-partial" not in node.said(rank)
    assert node.fake.calls() == []


def test_with_allow_partial_the_others_measure(make_node: MakeNode) -> None:
    """Rank 0 can do all, rank 1 has no driver, rank 2 may not set clocks; all three run the collectives."""
    node = make_node(3)
    node.fake.boards[2].fault("set_locked", code=4)
    node.start(3, "toys:three_gpus", "--allow-partial", rank1={"FAKE_NVML_STATE": ""})
    assert node.codes() == [0, 0, 0]
    merged, shard = read_profile(node.output), _shards(node, 1)[0]
    _check_board(node, 0, shard)
    assert [_place(row) for row in merged.rows] == [_place(row) for row in shard.rows]
    assert {row.kernel for row in merged.rows} == {
        None,
        "product",
        "tensor_all_reduce",
        "tensor_all_gather",
        "tensor_reduce_scatter",
    }
    assert all(row.invalid is None for row in merged.rows)
    assert merged.metadata.measurement["ranks"] == 1
    assert merged.metadata.device_uuid == node.fake.boards[0].uuid
    assert sorted(path.name for path in node.folder.glob("*.parquet*")) == [
        "profile.parquet",
        "profile.rank0.parquet",
    ]
    assert "rank 2: this GPU is left out" in node.said(2)
    assert node.given_back()


def test_simulated_gpus(make_node: MakeNode, tiny: Path) -> None:
    node = make_node()
    words = ("--device", "sim:a100-sxm4-80gb", "--stages", "2")
    node.start(2, tiny, *words)
    assert node.codes() == [0, 0]
    merged, shards = read_profile(node.output), _shards(node, 2)
    _check_merged(merged, shards)
    assert merged.metadata.device_kind is DeviceKind.SIMULATED
    assert len({shard.metadata.device_uuid for shard in shards}) == 2
    assert [{row.stage for row in shard.rows if row.level is Level.OP} for shard in shards] == [{0}, {1}]
    assert node.fake.calls() == []
