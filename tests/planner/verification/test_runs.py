"""A run's iterations as arrays."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from energyopt.planner.verification.runs import MIXED, NONE_RUN, read_run
from energyopt.planner.verification.scope import ranges, run_notes, scope_lines
from energyopt.schemas.errors import FileFormatError, NotComparableError
from energyopt.schemas.telemetry import Gpu, Mode, Telemetry


def row(rank: int, iteration: int, time_s: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "level": "iteration",
        "rank": rank,
        "stage": rank // 2,
        "iteration": iteration,
        "alternative": 0,
        "time_s": time_s,
        "energy_j": 10.0 * (rank + 1),
    } | more


@pytest.fixture
def made(recorded: ModuleType) -> Any:
    """Telemetry of two stages with two ranks each, from rows."""
    return lambda rows, **changes: recorded.Job().telemetry(rows, ranks_per_stage=2, **changes)


def grid(iterations: int) -> list[dict[str, Any]]:
    return [row(rank, iteration, 1 + 0.1 * rank) for iteration in range(iterations) for rank in range(4)]


def with_gpus(telemetry: Telemetry, **changes: dict[int, Any]) -> Telemetry:
    gpus = [
        replace(gpu, **{name: values[gpu.rank] for name, values in changes.items() if gpu.rank in values})
        for gpu in telemetry.metadata.gpus
    ]
    return replace(telemetry, metadata=replace(telemetry.metadata, gpus=tuple(gpus)))


def test_times_are_the_slowest_ranks_and_energies_sums(made: Any) -> None:
    run = read_run(made(grid(3)), "t")
    assert run.numbers.tolist() == [0, 1, 2]
    assert run.time_s.tolist() == pytest.approx([1.3] * 3)
    assert run.stage_time_s[0].tolist() == pytest.approx([1.1, 1.3])
    assert run.stage_energy_j[0].tolist() == [30.0, 70.0]
    assert (run.energy_j.tolist(), run.boards, run.gpus) == ([100.0] * 3, (2, 2), 4)


def test_rows_may_stand_in_any_order(made: Any) -> None:
    rows = grid(4)
    np.random.default_rng(0).shuffle(rows)  # type: ignore[arg-type]
    one, other = read_run(made(rows), "t"), read_run(made(grid(4)), "t")
    assert one.stage_energy_j.tolist() == other.stage_energy_j.tolist()


def test_a_board_counts_once(made: Any) -> None:
    run = read_run(with_gpus(made(grid(3)), uuid={1: "GPU-0"}), "t")
    assert (run.boards, run.stage_energy_j[0].tolist()) == ((1, 2), [10.0, 70.0])
    assert "3 GPUs of 4 ranks" in scope_lines(run, 0)[0]
    assert "1 ranks share another rank's board" in scope_lines(run, 0)[0]


def test_ranks_without_energy_are_named(made: Any) -> None:
    rows = [one | ({"energy_j": None} if one["rank"] in (2, 3) else {}) for one in grid(3)]
    run = read_run(made(rows), "t")
    assert (run.boards, run.without_energy) == ((2, 0), (2, 3))
    assert run.energy_j.tolist() == [30.0] * 3
    assert "no energy from ranks 2, 3" in scope_lines(run, 0)[0]


def test_a_counter_that_stands_still_gives_no_energy(made: Any) -> None:
    rows = [one | ({"energy_j": 0.0} if one["rank"] == 3 else {}) for one in grid(3)]
    run = read_run(made(rows), "t")
    assert (run.boards, run.without_energy, run.energy_j.tolist()) == ((2, 1), (3,), [60.0] * 3)
    assert read_run(made(grid(3)), "t", mute=[2, 3]).unread == (1,)


def test_an_iteration_without_a_reading_has_no_energy(made: Any) -> None:
    rows = grid(3)
    rows[0]["energy_j"] = None
    run = read_run(made(rows), "t")
    assert np.isnan(run.energy_j).tolist() == [True, False, False]


def test_incomplete_iterations_are_left_out_and_the_first_skipped(made: Any) -> None:
    run = read_run(made(grid(5)[:-1]), "t", skip=1)
    assert (run.numbers.tolist(), run.incomplete) == ([1, 2, 3], 1)
    assert run_notes(run) == ("1 iterations are left out: not every rank has them",)
    assert (
        scope_lines(run, 1)[1] == "iterations: 1 to 3 as the run counts them, 3 in all, the first 1 skipped"
    )


def test_what_is_no_whole_iteration_is_left_out(made: Any) -> None:
    rows = [one | ({"time_s": 0.01} if one["iteration"] == 4 else {}) for one in grid(5)]
    run = read_run(made(rows), "t")
    assert (run.numbers.tolist(), run.cut_short) == ([0, 1, 2, 3], 1)
    assert run_notes(run)[0].startswith("1 iterations are left out: shorter than half the median")


def test_alternatives_are_those_of_the_ranks_that_set_clocks(made: Any) -> None:
    rows = [one | {"alternative": one["iteration"]} for one in grid(3)]
    rows[4]["alternative"] = 0  # rank 0 in iteration 1
    rows += [one | {"iteration": 3, "alternative": None} for one in grid(1)]
    telemetry = made(rows)
    assert read_run(telemetry, "t").alternative.tolist() == [0, MIXED, 2, NONE_RUN]
    observed = with_gpus(telemetry, mode={0: Mode.OBSERVE})
    assert read_run(observed, "t").alternative.tolist() == [0, 1, 2, NONE_RUN]
    assert run_notes(read_run(observed, "t")) == ("ranks 0 only observed: their clocks were not the plan's",)
    every = with_gpus(telemetry, mode=dict.fromkeys(range(4), Mode.OBSERVE))
    assert set(read_run(every, "t").alternative.tolist()) == {NONE_RUN}


def test_stalls_are_not_typical(made: Any) -> None:
    rows = [one | ({"time_s": 2.0} if one["iteration"] == 2 else {}) for one in grid(5)]
    run = read_run(made(rows), "t")
    assert run.typical(run.of(0)).tolist() == [True, True, False, True, True]


def test_a_missing_rank_is_refused_unless_the_run_is_only_shown(made: Any) -> None:
    rows = [one for one in grid(3) if one["rank"] != 1]
    with pytest.raises(NotComparableError, match=r"t: rank 1 of 4 has no iteration \(1 missing in all\)"):
        read_run(made(rows), "t")
    shown = read_run(made(rows), "t", every_rank=False)
    assert (shown.ranks, shown.boards, shown.energy_j.tolist()) == (3, (1, 2), [80.0] * 3)


def test_nothing_to_look_at_is_refused(made: Any) -> None:
    with pytest.raises(
        NotComparableError, match=r"no iteration to look at: 3 of 3 are there .* 3 of these skipped"
    ):
        read_run(made(grid(3)), "t", skip=9)


def test_rows_that_contradict_each_other_are_refused(made: Any) -> None:
    with pytest.raises(FileFormatError, match="iteration 0 of rank 3 stands there twice"):
        read_run(made([*grid(2), row(3, 0)]), "t")
    with pytest.raises(FileFormatError, match="a rank stands on two stages"):
        read_run(made([*grid(2), row(3, 2, stage=0)]), "t")
    with pytest.raises(NotComparableError, match="4 ranks on stages"):
        read_run(made([one | {"stage": 0} for one in grid(2)]), "t")


def test_a_gpu_list_that_lacks_a_rank_counts_it_as_observing(made: Any) -> None:
    telemetry = made(grid(3))
    gpus: tuple[Gpu, ...] = telemetry.metadata.gpus[:-1]
    run = read_run(replace(telemetry, metadata=replace(telemetry.metadata, gpus=gpus)), "t")
    assert run.observers == (3,)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([4], "4"),
        ([4, 9], "4, 9"),
        ([1, 2, 3], "1 to 3"),
        ([0, 10, 20], "0 to 20 by 10"),
        ([1, 2, 4], "1 to 4, not all"),
    ],
)
def test_iteration_numbers_in_words(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
