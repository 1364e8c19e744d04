"""What every frontier promises, over schedules and odd jobs; and what must not change a plan."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.schedules.torch_csv import read_torch_csv
from energyopt.planner.selection import by_name, to_plan
from energyopt.schemas.errors import ProfileError, RequestError
from energyopt.schemas.frontier import Frontier, read_frontier, write_frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import read_plan, write_plan
from energyopt.schemas.profile import Profile, write_profile

NAMES = ["best_edp", "fastest", "max_clock_time", "min_energy"]
JOBS = {
    "1f1b": {"stages": 3, "microbatches": 6},
    "gpipe": {"schedule": "gpipe", "stages": 3, "microbatches": 4},
    "interleaved": {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
    "zb-h1": {"schedule": "zb-h1", "stages": 3, "microbatches": 4},
    "p2p and fixed time": {"stages": 3, "microbatches": 4, "p2p_time_s": 0.2, "fixed_time_s": 1.5},
    "fewer microbatches than stages": {"stages": 4, "microbatches": 2},
    "one stage": {"stages": 1, "microbatches": 3},
    "one microbatch": {"stages": 3, "microbatches": 1},
    "smallest": {"stages": 1, "microbatches": 1},
    "no wait power": {"stages": 3, "microbatches": 4, "wait_power_w": 0.0},
    "wait power above what work draws": {"stages": 3, "microbatches": 4, "wait_power_w": 2000.0},
    "noisy": {"stages": 3, "microbatches": 5, "style": "noisy"},
    "ties": {"stages": 3, "microbatches": 3, "style": "round"},
    "two options": {"stages": 2, "microbatches": 4, "most": 2},
    "one option": {"stages": 2, "microbatches": 3, "most": 1},
}
SCHEDULE_CSV = Path(__file__).parent / "schedules" / "data"


@pytest.fixture(scope="module", params=JOBS.values(), ids=JOBS.keys())
def case(request: pytest.FixtureRequest, random_job: Callable[..., Any]) -> tuple[Any, Frontier]:
    job = random_job(2, **({"most": 5} | request.param))
    return job, plan_frontier(*job)


def test_named_points_are_always_there(case: tuple[Any, Frontier]) -> None:
    assert sorted(name for point in case[1].points for name in point.names) == NAMES
    assert "fastest" in case[1].points[0].names
    assert "min_energy" in case[1].points[-1].names


def test_the_fastest_is_the_longest_path_of_fastest_options(
    case: tuple[Any, Frontier], longest_path_s: Callable[..., float]
) -> None:
    job, frontier = case
    fastest = {key: min(option.time_s for option in found) for key, found in frontier.options.items()}
    times = [fastest[op.key] for op in job.schedule.ops]
    expected_s = longest_path_s(job.schedule, times, job.pipeline.p2p_time_s) + job.pipeline.fixed_time_s
    assert frontier.points[0].iteration_time_s == pytest.approx(expected_s, rel=1e-12)


def test_no_time_is_below_the_longest_path(
    case: tuple[Any, Frontier], longest_path_s: Callable[..., float]
) -> None:
    job, frontier = case
    for point in frontier.points:
        times = [
            frontier.options[op.key][choice].time_s
            for op, choice in zip(job.schedule.ops, point.choices, strict=True)
        ]
        needed_s = longest_path_s(job.schedule, times, job.pipeline.p2p_time_s) + job.pipeline.fixed_time_s
        assert point.iteration_time_s >= needed_s * (1 - 1e-12)


def test_energy_falls_strictly_as_time_grows(case: tuple[Any, Frontier]) -> None:
    for one, other in pairwise(case[1].points):
        assert one.iteration_time_s < other.iteration_time_s
        assert one.energy_j > other.energy_j


def test_energies_add_up(case: tuple[Any, Frontier]) -> None:
    job, frontier = case
    static_w = job.profile.metadata.wait_power_w * job.pipeline.stages
    for point in frontier.points:
        assert point.static_j == pytest.approx(static_w * point.iteration_time_s, rel=1e-12)
        assert point.static_j + point.dynamic_j == pytest.approx(point.energy_j, rel=1e-12)
        assert point.average_power_w == pytest.approx(point.energy_j / point.iteration_time_s, rel=1e-12)


def test_bounds_hold(case: tuple[Any, Frontier]) -> None:
    for point in case[1].points:
        assert point.energy_j >= point.lower_bound_j * (1 - 1e-9)
        assert point.gap == pytest.approx(point.energy_j / point.lower_bound_j - 1, abs=1e-12)


def test_the_point_at_the_baselines_time_beats_the_baseline(case: tuple[Any, Frontier]) -> None:
    point = next(one for one in case[1].points if "max_clock_time" in one.names)
    assert point.iteration_time_s <= case[1].max_clock.iteration_time_s
    assert point.energy_j <= case[1].max_clock.energy_j * (1 + 1e-12)


@pytest.mark.parametrize(
    "name", ["1f1b-4x8.csv", "interleaved1f1b-4x2x8-comms.csv", "zbv-4x8.csv", "dualpipev-4x8.csv"]
)
def test_pytorch_schedules_can_be_planned(name: str, make_profile: Callable[..., Profile]) -> None:
    schedule = read_torch_csv(SCHEDULE_CSV / name)
    kinds = {op.kind for op in schedule.ops}
    rows = [
        (None, None, kind, clock, 1400 / clock, 200 * (clock / 1400) ** 1.5)
        for kind in kinds
        for clock in (1400, 1200, 1000)
    ]
    pipeline = Pipeline(
        stages=schedule.stages,
        microbatches=schedule.microbatches,
        schedule=schedule.name,
        chunks_per_stage=schedule.chunks_per_stage,
    )
    frontier = plan_frontier(make_profile(rows), pipeline, schedule, points=4)
    assert sorted(name for point in frontier.points for name in point.names) == NAMES
    assert all(point.gap < 0.05 for point in frontier.points)


def test_one_option_each_leaves_one_plan(random_job: Callable[..., Any]) -> None:
    points = plan_frontier(*random_job(0, most=1, stages=3, microbatches=3)).points
    assert len(points) == 1
    assert sorted(points[0].names) == NAMES
    assert points[0].gap == pytest.approx(0.0, abs=1e-9)


def test_gpus_per_stage_multiply_totals_alone(random_job: Callable[..., Any]) -> None:
    job = random_job(3, most=4, stages=2, microbatches=3)
    metadata = replace(job.profile.metadata, gpus_per_stage=4)
    one, four = (
        plan_frontier(*job),
        plan_frontier(replace(job.profile, metadata=metadata), job.pipeline, job.schedule),
    )
    assert (one.gpus, four.gpus) == (2, 8)
    assert four.max_clock.energy_j == pytest.approx(4 * one.max_clock.energy_j)
    assert len(one.points) == len(four.points)
    for single, group in zip(one.points, four.points, strict=True):
        assert group.choices == single.choices
        assert group.iteration_time_s == single.iteration_time_s
        for name in (
            "energy_j",
            "lower_bound_j",
            "static_j",
            "dynamic_j",
            "average_power_w",
            "marginal_power_w",
        ):
            assert getattr(group, name) == pytest.approx(4 * getattr(single, name), rel=1e-9)


def test_fixed_time_is_added_to_every_plan(random_job: Callable[..., Any]) -> None:
    """2 s at wait power of all three GPUs, and nothing else changes."""
    job = random_job(3, most=4, stages=3, microbatches=3, wait_power_w=50.0)
    plain = plan_frontier(*job)
    longer = plan_frontier(job.profile, replace(job.pipeline, fixed_time_s=2.0), job.schedule)
    for one, other in zip(plain.points, longer.points, strict=True):
        assert other.choices == one.choices
        assert other.iteration_time_s == pytest.approx(one.iteration_time_s + 2.0, rel=1e-12)
        assert other.energy_j == pytest.approx(one.energy_j + 2.0 * 3 * 50.0, rel=1e-12)
        assert other.lower_bound_j == pytest.approx(one.lower_bound_j + 2.0 * 3 * 50.0, rel=1e-9)


def test_a_baseline_slower_than_the_least_energy(
    make_profile: Callable[..., Profile], random_job: Any
) -> None:
    """The highest clock is slower and dearer here: its time is met by the plan of least energy."""
    rows = [(None, None, kind, *row) for kind in (OpKind.FORWARD, OpKind.BACKWARD) for row in (
        (1400, 3.0, 400.0), (1200, 1.0, 300.0), (1000, 1.2, 250.0))]  # fmt: skip
    job = random_job(0, stages=2, microbatches=3)
    frontier = plan_frontier(make_profile(rows), job.pipeline, job.schedule)
    assert frontier.max_clock.iteration_time_s > frontier.points[-1].iteration_time_s
    assert {"max_clock_time", "min_energy"} <= set(frontier.points[-1].names)


def test_the_number_of_points(random_job: Callable[..., Any]) -> None:
    job = random_job(4, most=8, stages=3, microbatches=6)
    assert len(plan_frontier(*job, points=4).points) <= 4
    many = plan_frontier(*job, points=200).points
    assert 60 < len(many) <= 200
    with pytest.raises(RequestError, match="at least 4 points, not 3"):
        plan_frontier(*job, points=3)


def test_an_operation_without_rows_is_refused(random_job: Callable[..., Any]) -> None:
    job = random_job(0)
    profile = replace(job.profile, rows=tuple(row for row in job.profile.rows if row.stage == 0))
    with pytest.raises(ProfileError, match="no usable row for backward of stage 1"):
        plan_frontier(profile, job.pipeline, job.schedule)


def test_the_order_of_rows_does_not_matter(random_job: Callable[..., Any], tmp_path: Path) -> None:
    job = random_job(5, most=6, stages=3, microbatches=4, style="noisy")
    rows = list(job.profile.rows)
    random.Random(1).shuffle(rows)
    shuffled = replace(job.profile, rows=tuple(rows))
    for name, profile in (("one", job.profile), ("other", shuffled)):
        write_frontier(tmp_path / name, plan_frontier(profile, job.pipeline, job.schedule))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_hash_seeds_do_not_matter(random_job: Callable[..., Any], tmp_path: Path) -> None:
    job = random_job(5, most=6, stages=2, microbatches=3, style="noisy")
    write_profile(tmp_path / "profile.parquet", job.profile)
    code = (
        "import sys; from pathlib import Path\n"
        "from energyopt.planner.frontier import plan_frontier\n"
        "from energyopt.planner.schedules.registry import build_schedule\n"
        "from energyopt.schemas.frontier import write_frontier\n"
        "from energyopt.schemas.pipeline import Pipeline\n"
        "from energyopt.schemas.profile import read_profile\n"
        "pipeline = Pipeline(stages=2, microbatches=3)\n"
        "frontier = plan_frontier(read_profile(Path(sys.argv[1])), pipeline, build_schedule(pipeline))\n"
        "write_frontier(Path(sys.argv[2]), frontier)\n"
    )
    for seed in ("0", "1"):
        command = [sys.executable, "-c", code, str(tmp_path / "profile.parquet"), str(tmp_path / seed)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


@pytest.mark.parametrize(("times", "energies"), [(1e3, 1e3), (1.0, 1e6), (1e-3, 1.0), (1.0, 1e-3)])
def test_units_do_not_matter(
    times: float, energies: float, random_job: Callable[..., Any], make_profile: Callable[..., Profile]
) -> None:
    """A profile in other units, wait power converted too, gives the same plans with converted numbers.

    Not promised where plans tie exactly, as with equal costs on every stage: then rounding may pick another.
    """
    job = random_job(6, most=6, stages=3, microbatches=4, style="noisy")
    rows = [
        (row.stage, row.chunk, row.op, row.sm_clock_mhz, row.time_s * times, row.energy_j * energies)
        for row in job.profile.rows
    ]
    profile = make_profile(rows, wait_power_w=job.profile.metadata.wait_power_w * energies / times)
    plain, scaled = plan_frontier(*job), plan_frontier(profile, job.pipeline, job.schedule)
    assert [point.choices for point in scaled.points] == [point.choices for point in plain.points]
    for one, other in zip(plain.points, scaled.points, strict=True):
        assert math.isclose(other.energy_j, one.energy_j * energies, rel_tol=1e-9)
        assert math.isclose(other.iteration_time_s, one.iteration_time_s * times, rel_tol=1e-9)
        assert math.isclose(other.lower_bound_j, one.lower_bound_j * energies, rel_tol=1e-9)


def test_what_plans_were_limited_to_goes_into_the_file_and_the_latency_into_the_plan(
    random_job: Callable[..., Any], tmp_path: Path
) -> None:
    job = random_job(3, stages=3, microbatches=4)
    profile = replace(job.profile, metadata=replace(job.profile.metadata, clock_switch_latency_s=0.02))
    limits = SwitchLimits(max_switches=7, min_dwell_s=1e-6)
    write_frontier(tmp_path / "f.parquet", plan_frontier(profile, *job[1:], limits=limits))
    found = read_frontier(tmp_path / "f.parquet")
    assert (found.max_switches, found.min_dwell_s, found.clock_switch_latency_s) == (7, 1e-6, 0.02)
    assert all(point.clock_switches <= 7 for point in found.points)
    write_plan(tmp_path / "p.json", to_plan(found, by_name(found, "min_energy")))
    assert read_plan(tmp_path / "p.json").clock_switch_latency_s == 0.02
