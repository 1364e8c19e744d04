"""Searches that measure: on a simulated GPU, stopped and gone on with, with ranks that lag, and on bad boards."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.measurement.job import Job, Measured
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.profile import profile_of
from energyopt.profiler.measurement.run import measure
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.overlapped import overlapped
from energyopt.profiler.search import stopping
from energyopt.profiler.search.driver import TURN
from energyopt.profiler.search.space import Space
from energyopt.profiler.search.spaces_of import searched_partitions
from energyopt.profiler.search.unions import common_spaces
from energyopt.profiler.workloads.interface import Workload
from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.profile import Level

CLOCKS = (1410, 1200, 1005)
SHAPE = {"tensor_parallel": 8, "microbatch_size": 2, "sequence_length": 2048, "comm_sms": (6, 12, 24)}
CUT = {"data_parallel": 4, "comm_sms": (8,)}


class StoppedError(Exception):
    """As Ctrl-C would."""


def _workload(shape: dict[str, Any]) -> Workload:
    whole = load_workload("llama-3.2-3b", shape)
    ops = tuple(op for op in whole.ops if op.kind == "forward")
    return overlapped("llama-3.2-3b", replace(whole, ops=ops), 108)


def _job(shape: dict[str, Any] = SHAPE, said: list[str] | None = None, **settings: Any) -> Job:
    chosen: dict[str, Any] = {"windows": 2, "soak_s": 5.0, "early_stop": False, "search": True}
    return Job(
        bench=open_simulated_bench("a100-sxm4-80gb"),
        workload=_workload(shape),
        settings=Settings(clocks_mhz=CLOCKS, **(chosen | settings)),
        progress=lambda *_: None,
        say=lambda text: None if said is None else said.append(text),
        warn=lambda _: None,
    )


def _run(job: Job, path: Path) -> tuple[Measured, list[list[list[Any]]]]:
    """What was measured, and the points of each turn."""
    with Partial(path, "digest", "a test") as partial:
        measured = measure(job, partial)
    with Partial(path, "digest", "a test") as partial:
        return measured, [turn["points"] for turn in partial.all(TURN)]


def _points(measured: Measured) -> set[tuple[str, int]]:
    return {key for key in measured.windows if " " in key[0]}


def test_a_search_keeps_to_its_budget_and_says_why_it_ends(tmp_path: Path) -> None:
    said: list[str] = []
    job = _job(said=said, search_points=36)
    measured, turns = _run(job, tmp_path / "a.partial")
    found = measured.search
    assert found is not None
    assert (found.why, found.measured) == ("the budget of 36 points is used up", 36)
    assert said[-1] == str(found)
    assert sum(map(len, turns)) == len(_points(measured)) == 36
    assert all(len(windows) == 2 for windows in measured.windows.values())
    composites = {one.kernel.name: one for one in job.workload.composites}
    plain = {key for key in _points(measured) if composites[key[0]].config.is_plain}
    assert {clock for _, clock in plain} == set(CLOCKS)
    assert len(plain) == len(CLOCKS) * 4  # of every partition at every clock


def test_its_profile_has_the_rows_that_were_measured_and_the_outcome(tmp_path: Path) -> None:
    job = _job(search_points=32)
    measured, _ = _run(job, tmp_path / "a.partial")
    profile = profile_of(job, measured)
    cut = [row for row in profile.rows if row.level is Level.PARTITION and row.nanobatches == 2]
    assert len(cut) == 32
    assert {row.execution for row in cut} == {"sequential", "overlapped"}
    about = profile.metadata.measurement
    assert about["search"] == "the budget of 32 points is used up"
    assert about["search_measured_points"] == 32
    assert about["search_share"] == pytest.approx(32 / float(about["search_points"]))
    assert about["kernels_without_number"] == 0


@pytest.mark.parametrize("after", [30, 64])
def test_a_stopped_search_goes_on_and_proposes_the_same(tmp_path: Path, after: int) -> None:
    """Turns are compared; the board's noise is another after a stop, so only turns that were begun are the same."""
    _, whole = _run(_job(search_points=36), tmp_path / "whole.partial")
    kept = 0

    class Killed(Partial):
        def add(self, kind: str, value: dict[str, Any]) -> None:
            nonlocal kept
            kept += " " in str(value.get("kernel", ""))
            if kept > after:
                raise StoppedError
            super().add(kind, value)

    path = tmp_path / "stopped.partial"
    with pytest.raises(StoppedError), Killed(path, "digest", "a test") as partial:
        measure(_job(search_points=36), partial)
    with Partial(path, "digest", "a test") as partial:
        begun = [turn["points"] for turn in partial.all(TURN)]
        windows = len(partial.all("window"))
    assert begun == whole[: len(begun)]
    measured, turns = _run(_job(search_points=36), path)
    assert turns[: len(begun)] == begun
    assert sum(map(len, turns)) == 36
    assert all(len(found) == 2 for found in measured.windows.values())
    with Partial(path, "digest", "a test") as partial:
        assert len(partial.all("window")) == sum(map(len, measured.windows.values())) > windows


def test_with_the_same_measurements_a_later_run_would_propose_the_same(tmp_path: Path) -> None:
    """The record without its last turns: they are proposed again, for what was measured is the same."""
    path = tmp_path / "whole.partial"
    _, whole = _run(_job(search_points=36), path)
    lines = path.read_text().splitlines(keepends=True)
    cut = [line for line in lines if '"kind":"turn"' not in line.replace(" ", "")]
    path.write_text("".join(cut))
    _, again = _run(_job(search_points=36), path)
    assert again == whole


def test_fronts_that_stand_still_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "STILL", 10.0)
    measured, turns = _run(_job(search_points=100), tmp_path / "a.partial")
    assert measured.search is not None
    assert measured.search.why.startswith("2 turns in a row expected no point to gain")
    assert len(turns) == 1 + stopping.QUIET_TURNS


def test_the_time_ends_it_but_not_before_sequential_execution_is_measured(tmp_path: Path) -> None:
    """A board that needs half a minute to make ready for other SM counts, which nobody could foresee."""
    job = _job(search_points=60, budget_s=1200.0)
    bench: Any = job.bench
    prepare = bench.prepare

    def slow(kernel: Any) -> None:
        bench.sleep(30.0 if "SMs" in kernel.name else 0.0)
        prepare(kernel)

    bench.prepare = slow
    measured, turns = _run(job, tmp_path / "a.partial")
    assert measured.search is not None
    assert measured.search.why == "the time is used up"
    assert measured.search.measured == sum(map(len, turns)) < 60
    assert len(turns[0]) == 4 * (len(CLOCKS) + 4)


def test_where_sequential_execution_is_the_sum_of_its_kernels(tmp_path: Path) -> None:
    """Sharded weights: nothing is cut, and what runs today is not measured twice."""
    measured, _ = _run(_job(CUT), tmp_path / "a.partial")
    assert measured.search is not None
    overlapping = {key for key in measured.windows if "overlapped" in key[0]}
    assert measured.search.measured == len(CLOCKS) + len(overlapping)
    assert not any("sequential" in name for name, _ in measured.windows)


def test_a_point_that_gives_no_number_is_passed_over(tmp_path: Path) -> None:
    """A board that throttles for heat whenever communication has 6 SMs."""
    job = _job(search_points=36)
    bench: Any = job.bench
    run = bench.run

    def hot(kernel: Any, repeats: int, poll: Any = None) -> float:
        if poll is not None and kernel.overlap is not None and "6 SMs" in kernel.name:
            return float(run(kernel, repeats, lambda now_s: now_s + 1e9))  # the board is never looked at
        return float(run(kernel, repeats, poll))

    bench.run = hot
    measured, turns = _run(job, tmp_path / "a.partial")
    assert measured.search is not None
    assert measured.search.measured == sum(map(len, turns)) == 36
    lost = [name for (name, _), found in measured.windows.items() if not any(one.usable for one in found)]
    assert lost
    assert all("6 SMs" in name for name in lost)


class Ranks:
    """A team of two whose other rank always says the same."""

    rank, size = 1, 2

    def __init__(self, other: Any) -> None:
        self._other = other

    def gather(self, value: Any) -> list[Any]:
        return [self._other, value]


def test_ranks_of_different_stages_search_the_partitions_of_both(
    make_space: Callable[..., Space],
) -> None:
    sent: list[Any] = []

    class Alone:
        rank, size = 0, 1

        def gather(self, value: Any) -> list[Any]:
            sent.append(value)
            return [value]

    theirs, ours = [make_space("one"), make_space("two")], [make_space("two", share=0.4), make_space("three")]
    assert common_spaces(Alone(), theirs) == tuple(theirs)
    assert common_spaces(Ranks(sent[0]), ours) == (*theirs, ours[1])


def test_partitions_that_are_the_same_work_are_searched_once() -> None:
    """A recomputed forward inside a backward is the forward's."""
    shape = {"tensor_parallel": 8, "microbatch_size": 2, "recompute": "full"}
    workload = overlapped("llama-3.2-3b", load_workload("llama-3.2-3b", shape), 108)
    found = searched_partitions(workload, CLOCKS, lambda *_: None)
    kernels = [kernel.name for one in found for kernel in one.kernels if kernel is not None]
    assert len(kernels) == len(set(kernels)) == len({one.kernel.name for one in workload.composites})


def test_launch_points_lie_where_compute_time_has_passed() -> None:
    workload = _workload(SHAPE)
    times = {"norm": 1.0, "qkv_proj": 5.0, "rope": 2.0, "attention": 12.0}
    one = searched_partitions(workload, CLOCKS, lambda name, _clock: times.get(name, 20.0))[0]
    assert one.space.name == "forward attention_qkv/2"
    assert one.space.launch_at == pytest.approx(
        {"norm": 0.0, "qkv_proj": 0.05, "rope": 0.3, "attention": 0.4}
    )
    assert one.space.comm_share == pytest.approx([0.5] * len(CLOCKS))  # 20 of 40
    blind = searched_partitions(workload, CLOCKS, lambda *_: None)[0]
    assert list(blind.space.launch_at.values()) == [0.0, 0.25, 0.5, 0.75]
