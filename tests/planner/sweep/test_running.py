"""Running a sweep: what layouts cost, failures that stay alone, files that are kept, any number of workers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.solve import Effort
from energyopt.planner.sweep import running
from energyopt.planner.sweep.keeping import Keeper
from energyopt.planner.sweep.relayout import relaid
from energyopt.planner.sweep.running import run_sweep
from energyopt.planner.sweep.task import Task, plan_layout
from energyopt.planner.sweep.wishes import Wishes
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import Level, Profile, read_profile
from energyopt.schemas.sweep import sweep_to_json
from energyopt.schemas.sweep_request import SweepRequest

Measure = Callable[..., Profile]
QUICK = Wishes(points=4, effort=Effort.QUICK)


def _request(**settings: Any) -> SweepRequest:
    some = {"folder": Path(), "profiles": ("p",), "gpus": (16,), "global_batch": 16, "stages": (2, 4)}
    return SweepRequest(**(some | settings))


@pytest.fixture(scope="module")
def profile(measured: Measure) -> Profile:
    return measured(stages=2, tensor_parallel=2)


def test_a_layout_is_planned_as_by_itself_and_counts_all_replicas(profile: Profile) -> None:
    """Four stages of two GPUs on 16 GPUs: two replicas, which run in step."""
    sweep = run_sweep(_request(p2p_time_s=1e-4, fixed_time_s=0.01), {"p": profile}, QUICK)
    pipeline = Pipeline(
        stages=4, microbatches=8, tensor_parallel=2, data_parallel=2, p2p_time_s=1e-4, fixed_time_s=0.01
    )
    alone = plan_frontier(
        relaid(profile, 4, 1, profile.sha256()),
        pipeline,
        build_schedule(pipeline),
        points=4,
        effort=Effort.QUICK,
    )
    found = sweep.layouts[1]
    assert found.layout.name == "tp2 pp4 dp2 mb1x8 1f1b"
    assert (found.max_clock_time_s, found.max_clock_energy_j) == (
        alone.max_clock.iteration_time_s,
        2 * alone.max_clock.energy_j,
    )
    for point, own in zip(found.points, alone.points, strict=True):
        assert point.iteration_time_s == own.iteration_time_s
        assert point.energy_j == 2 * own.energy_j
        assert point.average_power_w == pytest.approx(point.energy_j / point.iteration_time_s)
        assert own.peak_power_w is not None and point.peak_power_w == 2 * own.peak_power_w
    assert (sweep.model, sweep.tokens) == ("llama-3.2-3b", 16 * 2048)


def test_times_that_a_calibrated_profile_has(profile: Profile) -> None:
    fitted = replace(
        profile,
        metadata=replace(
            profile.metadata,
            fixed_time_s=0.5,
            measurement={"calibrated_stages": 2, "calibrated_microbatches": 4},
        ),
    )
    told: list[str] = []
    sweep = run_sweep(_request(stages=(2, 4)), {"p": fitted}, QUICK, warn=told.append)
    plain = run_sweep(_request(stages=(2,)), {"p": profile}, QUICK)
    assert sweep.layouts[0].max_clock_time_s == pytest.approx(plain.layouts[0].max_clock_time_s + 0.5)
    assert len(told) == 1
    assert told[0].startswith("p: calibrated with runs of stages 2, planned for 4")


def test_the_number_of_workers_changes_nothing(profile: Profile) -> None:
    wanted = _request(stages=(1, 2, 4))
    one, two = (run_sweep(wanted, {"p": profile}, QUICK, workers=workers) for workers in (1, 2))
    assert sweep_to_json(one) == sweep_to_json(two)


def test_progress_counts_layouts(profile: Profile) -> None:
    told: list[tuple[str, float]] = []
    run_sweep(_request(), {"p": profile}, QUICK, progress=lambda step, share: told.append((step, share)))
    assert [share for _, share in told] == [0.0, 0.5, 1.0]
    assert {step for step, _ in told[1:]} == {
        "planned tp2 pp2 dp4 mb1x4 1f1b",
        "planned tp2 pp4 dp2 mb1x8 1f1b",
    }


def _lacking(profile: Profile) -> Profile:
    """No partition rows, so that no other layout than its own can be derived."""
    return replace(profile, rows=tuple(row for row in profile.rows if row.level is Level.OP))


def test_a_layout_that_fails_takes_no_other_down(profile: Profile) -> None:
    told: list[str] = []
    sweep = run_sweep(_request(), {"p": _lacking(profile)}, QUICK, warn=told.append)
    assert [one.layout.stages for one in sweep.layouts] == [2]
    assert [(one.layout.stages, one.error.split(":")[0]) for one in sweep.failed] == [
        (4, "the profile has no rows of partitions")
    ]
    assert told[0].startswith("tp2 pp4 dp2 mb1x8 1f1b is not planned: the profile has no rows of partitions")


def test_no_layout_that_can_be_planned(profile: Profile) -> None:
    with pytest.raises(EnergyoptError, match=r"no layout could be planned: tp2 pp4 .* no rows of partitions"):
        run_sweep(_request(stages=(4,)), {"p": _lacking(profile)}, QUICK)


def test_a_defect_in_one_layout_is_told_apart(profile: Profile) -> None:
    sweep = run_sweep(_request(stages=(2,)), {"p": profile}, QUICK)
    task = Task(
        number=3,
        layout=sweep.layouts[0].layout,
        pipeline=None,  # type: ignore[arg-type]
        profile=profile,
        profile_sha256="",
        wishes=QUICK,
        keep=False,
    )
    outcome = plan_layout(task)
    assert outcome.defect and outcome.number == 3
    assert "a defect of energyopt: AttributeError" in outcome.found.error  # type: ignore[union-attr]


def test_frontiers_are_kept_and_taken_up_again(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(folder=tmp_path)
    first = run_sweep(_request(), {"p": profile}, QUICK, keeper=keeper)
    names = [one.frontier for one in first.layouts]
    frontiers = {path.name for path in tmp_path.glob("*.frontier.parquet")}
    assert set(names) == frontiers and len(frontiers) == 2
    digests = {read_profile(path).sha256() for path in tmp_path.glob("*.profile.parquet")}
    assert digests == {read_frontier(tmp_path / name).profile_sha256 for name in frontiers}

    (tmp_path / str(names[1])).write_bytes(b"cut short")
    planned: list[int] = []

    def count(task: Task) -> Any:
        planned.append(task.layout.stages)
        return plan_layout(task)

    monkeypatch.setattr(running, "plan_layout", count)
    assert run_sweep(_request(), {"p": profile}, QUICK, keeper=keeper) == first
    assert planned == [4]
    run_sweep(_request(), {"p": profile}, replace(QUICK, points=5), keeper=keeper)
    assert planned == [4, 4, 2]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(EnergyoptError, match="there is no folder"):
        Keeper(folder=tmp_path / "none").check()
