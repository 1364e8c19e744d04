"""Shards of several ranks as one telemetry file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.telemetry.merging import find_shards, merge_shards
from energyopt.planner.telemetry.shards import is_shard, read_shard
from energyopt.schemas.errors import FileFormatError, NotComparableError
from energyopt.schemas.telemetry import Mode, read_telemetry, write_telemetry

PIPELINE = {"stages": 2, "microbatches": 1, "schedule": "1f1b"}
BOARD = {"name": "NVIDIA A100", "uuid": "GPU-0", "scope": "gpu_board"}


def iteration(number: int, **changes: Any) -> dict[str, Any]:
    found = {
        "iteration": number,
        "alternative": 0,
        "time_s": 1.5,
        "energy_j": 300.25,
        "achieved_sm_clock_mhz": 1400,
        "throttle": 4,
        "clock_sets": 3,
        "dropped_requests": 0,
        "overhead_s": 1e-5,
        "helper_cpu_s": 0.01,
        "ops": [[0, 0.1, 0.5, 1400, 1395, 0], [1, 0.7, 0.6, 1200, None, None]],
    }
    return found | changes


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def shard(rank: int, *lines: dict[str, Any], name: str = "", end: str = "\n", **header: Any) -> Path:
        first = {
            "format": "energyopt-telemetry-shard",
            "schema_version": 1,
            "rank": rank,
            "stage": rank % 2,
            "world_size": 2,
            "framework": "own loop",
            "host": "node",
            "time": "2026-01-01T00:00:00+00:00",
            "timer": "cpu_clock",
            "sampled_every": 1,
            "plan_sha256": "ab",
            "profile_sha256": None,
            "pipeline": PIPELINE,
            "applied": True,
            "board": BOARD | {"uuid": f"GPU-{rank}"},
            "energy_source": "counter",
            "ops": [["forward", 0, 0, None, None], ["backward", 0, 0, None, None]],
        }
        path = tmp_path / (name or f"rank{rank}.jsonl")
        path.write_text("\n".join(json.dumps(line) for line in (first | header, *lines)) + end)
        return path

    return shard


def test_every_number_arrives_where_it_belongs(write: Callable[..., Path], tmp_path: Path) -> None:
    shards = [write(rank, iteration(0), iteration(10)) for rank in (0, 1)]
    write_telemetry(tmp_path / "run.parquet", merge_shards(shards).telemetry)
    run = read_telemetry(tmp_path / "run.parquet")
    assert run.iterations.num_rows == 4
    first = run.iterations.slice(0, 1).to_pylist()[0]
    expected = iteration(0)
    del expected["ops"]
    assert {name: first[name] for name in expected} == expected
    ops = run.ops.filter(run.ops["rank"].to_numpy() == 1).to_pylist()
    assert [(op["iteration"], op["op"], op["microbatch"]) for op in ops] == [
        (0, "forward", 0),
        (0, "backward", 0),
        (10, "forward", 0),
        (10, "backward", 0),
    ]
    assert [(op["sm_clock_mhz"], op["achieved_sm_clock_mhz"], op["throttle"]) for op in ops[:2]] == [
        (1400, 1395, 0),
        (1200, None, None),
    ]
    assert [(gpu.rank, gpu.uuid, gpu.mode) for gpu in run.metadata.gpus] == [
        (0, "GPU-0", Mode.APPLY),
        (1, "GPU-1", Mode.APPLY),
    ]


def test_absent_is_null(write: Callable[..., Path]) -> None:
    line = iteration(0, energy_j=None, alternative=None, overhead_s=None, throttle=None)
    merged = merge_shards([write(0, line, board=None, energy_source=None, applied=False), write(1)])
    row = merged.telemetry.iterations.to_pylist()[0]
    assert [row[name] for name in ("energy_j", "alternative", "overhead_s", "throttle")] == [None] * 4
    gpu = merged.telemetry.metadata.gpus[0]
    assert (gpu.uuid, gpu.energy_source, gpu.mode) == (None, None, Mode.OBSERVE)


def test_a_killed_rank_leaves_half_a_line(write: Callable[..., Path]) -> None:
    path = write(0, iteration(0), end='\n{"iteration": 1, "alt')
    assert read_shard(path).columns["iteration"] == [0, 0, 0]
    assert any("cut short" in text for text in merge_shards([path, write(1)]).warnings)


def test_reports_are_kept_with_their_rank(write: Callable[..., Path]) -> None:
    shards = [write(0, {"report": "no right to set clocks"}), write(1)]
    assert merge_shards(shards).telemetry.metadata.reports == ("rank 0: no right to set clocks",)


def test_what_is_missing_or_twice_is_said(write: Callable[..., Path]) -> None:
    assert any("1 of 2 ranks have no shard here: 1" in text for text in merge_shards([write(0)]).warnings)
    shared = [write(rank, board=BOARD) for rank in (0, 1)]
    assert any("ranks 0, 1 share GPU-0" in text for text in merge_shards(shared).warnings)


def test_the_last_part_of_a_restarted_rank_counts(write: Callable[..., Path]) -> None:
    early = write(0, iteration(0))
    late = write(0, iteration(5), name="rank0.part1.jsonl", time="2026-01-01T01:00:00+00:00")
    merged = merge_shards([late, early, write(1)])
    assert merged.telemetry.iterations["iteration"].to_pylist() == [5]
    assert any("started 2 times; rank0.part1.jsonl" in text for text in merged.warnings)


@pytest.mark.parametrize(
    ("name", "value"), [("plan_sha256", "cd"), ("world_size", 4), ("timer", "cuda_events")]
)
def test_shards_of_other_runs_are_refused(name: str, value: Any, write: Callable[..., Path]) -> None:
    with pytest.raises(NotComparableError, match=name):
        merge_shards([write(0), write(1, **{name: value})])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (iteration(-1), "expected at least 0, found -1 @ line 2.iteration"),
        (iteration(0, time_s=None), "expected a number, found null @ line 2.time_s"),
        (iteration(0, ops=[[2, 0.1, 0.5, 1400, 1395, 0]]), "is none of the 2 operations"),
        (iteration(0, ops=[[0, 0.1, None, 1400, 1395, 0]]), "is none of the 2 operations"),
        (iteration(0, ops=[[0, 0.1]]), "expected lists of position"),
        (iteration(0, ops=[[0, "x", 0.5, 1400, 1395, 0]]), "expected numbers"),
    ],
)
def test_bad_lines_are_named(line: dict[str, Any], text: str, write: Callable[..., Path]) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_shard(write(0, line))
    assert text in str(caught.value)


def test_shards_are_known_and_found(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(0)
    assert is_shard(path)
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert not is_shard(other)
    assert find_shards([tmp_path, other]) == [path, other]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="no telemetry shards"):
        find_shards([tmp_path / "empty"])


def test_shards_without_content_are_left_out_by_name(write: Callable[..., Path], tmp_path: Path) -> None:
    """A rank that was killed before its header was on disk must not cost the others."""
    good = write(0, iteration(0))
    empty, cut = tmp_path / "rank1.jsonl", tmp_path / "rank2.jsonl"
    empty.touch()
    cut.write_text(good.read_text()[:60])
    found = find_shards([tmp_path])
    assert found == [good, empty, cut]
    merged = merge_shards(found)
    assert merged.telemetry.iterations.num_rows == 1
    for path, what in ((empty, "empty"), (cut, "its first line is cut short")):
        assert f"{path}: {what}, as by a kill; this shard is left out" in merged.warnings
    with pytest.raises(FileFormatError, match="cut short"):
        merge_shards([empty, cut])


def test_a_bad_line_costs_its_own_rank_alone(write: Callable[..., Path]) -> None:
    bad = write(1, iteration(-1))
    merged = merge_shards([write(0, iteration(0)), bad])
    assert [gpu.rank for gpu in merged.telemetry.metadata.gpus] == [0]
    assert any(text.startswith(f"{bad}: ") and "left out" in text for text in merged.warnings)


def test_other_files_of_a_folder_are_not_taken(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(0)
    (tmp_path / "rank0.notes.jsonl").write_text('{"mine": 1}\n')
    assert find_shards([tmp_path]) == [path]


LATE = "2026-02-01T00:00:00+00:00"


def test_ranks_that_did_not_start_together_are_of_several_runs(write: Callable[..., Path]) -> None:
    """January has 31 days: 744 hours."""
    with pytest.raises(NotComparableError, match=r"rank1.jsonl was started 744.0 hours after .*rank0.jsonl"):
        merge_shards([write(0), write(1, time=LATE)])
    near = "2026-01-01T01:59:00+01:00"  # 59 minutes later
    assert merge_shards([write(0), write(1, time=near)]).warnings == ()


def test_a_rank_restarted_late_may_be_of_the_same_run(write: Callable[..., Path]) -> None:
    shards = [write(0), write(0, name="rank0.part1.jsonl", time=LATE), write(1)]
    assert any("744.0 hours" in text and "another run" in text for text in merge_shards(shards).warnings)
    together = [*shards, write(1, name="rank1.part1.jsonl", time=LATE)]
    assert not any("hours" in text for text in merge_shards(together).warnings)


def test_a_time_that_is_none_is_named(write: Callable[..., Path]) -> None:
    with pytest.raises(FileFormatError, match=r"expected a time such as .* @ line 1.time"):
        merge_shards([write(0, time="yesterday"), write(1)])


def test_other_names_of_the_run_are_said(write: Callable[..., Path]) -> None:
    warnings = merge_shards([write(0, run_id="job-1"), write(1, run_id="job-2")]).warnings
    assert any("differ: job-1, job-2" in text for text in warnings)
    assert merge_shards([write(0, run_id="job-1"), write(1, run_id=None)]).warnings == ()


def test_a_rank_without_a_board_says_nothing_of_the_scope(write: Callable[..., Path], tmp_path: Path) -> None:
    shards = [write(0, board=None, energy_source=None), write(1, board=BOARD | {"scope": "module"})]
    write_telemetry(tmp_path / "run.parquet", merge_shards(shards).telemetry)
    metadata = read_telemetry(tmp_path / "run.parquet").metadata
    assert [gpu.scope for gpu in metadata.gpus] == [None, "module"]
    assert metadata.scopes == ("module",)
