"""lowtime 0.3.0 and energyopt on the same profile and job, back to back, each in its own process.

Both frontiers are judged alike: about 20 plans of each are run through the simulator at the measured times and
energies of their clocks, and compared with the certified bound at the time that comes out. lowtime runs twice:
options pruned on effective energy, and pruned on whole energy first, as its own Perseus example does. The first way
it also makes many plans that are slower than the one of least energy, so of no use, and takes longer for it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.bounds import bounds_j, problem_of
from benchmarks.commands import median_wall_s, plan_command, wall_s
from benchmarks.lowtime_venv import lowtime_python
from benchmarks.recompute import cost_at_clocks, frontier_clocks
from benchmarks.registry import SHORT, Benchmark, Settings
from benchmarks.workloads import Workload, workloads
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.problem import Problem
from energyopt.planner.tables import Table
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.profile import write_profile

MICROBATCHES = (12,)
POINTS = 20
RUNS = 3
UNIT_TIME_S = 0.001
ROUNDING = 1e-9
ASKED_RATIO = {12: 50.0}  # times faster

EFFORTS = ("normal", "quick")
WAYS = {"lowtime, effective": "effective", "lowtime, whole": "whole"}

COLUMNS = (
    "profile", "microbatches", "planner", "wall s", "plans", "median gap %", "max gap %", "of use", "median gap %",
    "max gap %", "real / claimed time %", "time ratio", "median gap ratio", "max gap ratio", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is left of some plans: gap, and real over claimed iteration time, less 1, of each."""

    gaps: list[float]
    excess: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One planner on one job: all its plans, and those that are not slower than the least-energy time."""

    wall_s: float
    plans: int
    judged: Judged
    plans_of_use: int
    judged_of_use: Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An iteration time as a planner claims it, and a clock for each operation."""

    claimed_time_s: float
    clocks_mhz: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What both planners plan; least_energy_time_s is where the bound on energy is least."""

    workload: Workload
    microbatches: int
    problem: Problem
    least_energy_time_s: float


def run(settings: Settings) -> Table:
    microbatches = settings.microbatches or ((3,) if settings.smoke else MICROBATCHES)
    jobs = [_job(one, count) for one in workloads(settings) for count in microbatches]
    title = (
        f"8 stages, 1F1B; wall: median of {settings.runs or RUNS} runs for energyopt, one run for lowtime; "
        "of use: plans not slower than the least-energy time; ratios: lowtime's to energyopt's, gaps of use"
    )
    return Table(
        title=title, columns=COLUMNS, rows=tuple(row for job in jobs for row in _rows(settings, job))
    )


def _job(workload: Workload, microbatches: int) -> Job:
    problem = problem_of(workload, microbatches)
    free_s = HighsRelaxedSolver(problem).solve_free().makespan_s
    return Job(workload=workload, microbatches=microbatches, problem=problem, least_energy_time_s=free_s)


def _rows(settings: Settings, job: Job) -> list[tuple[str, ...]]:
    start = (job.workload.name, str(job.microbatches))
    with TemporaryDirectory() as folder:
        ours = {effort: _energyopt(settings, job, Path(folder), effort) for effort in EFFORTS}
        rows = [(*start, f"energyopt, {one}", *_cells(found), "", "", "", "") for one, found in ours.items()]
        for name, way in WAYS.items():
            theirs = _lowtime(settings, job, way, Path(folder))
            rows += [
                (*start, f"{name} / {one}", *_cells(theirs), *_ratios(job, found, theirs))
                for one, found in ours.items()
            ]
    return rows


def _cells(one: Result) -> tuple[str, ...]:
    excess = one.judged.excess
    spread = f"{min(excess) * 100:+.2f} to {max(excess) * 100:+.2f}"
    gaps, gaps_of_use = (
        [f"{middle(judged.gaps) * 100:.3f}" for middle in (median, max)]
        for judged in (one.judged, one.judged_of_use)
    )
    return (f"{one.wall_s:.2f}", str(one.plans), *gaps, str(one.plans_of_use), *gaps_of_use, spread)


def _ratios(job: Job, ours: Result, theirs: Result) -> tuple[str, ...]:
    ratio = theirs.wall_s / ours.wall_s
    mine, other = ours.judged_of_use.gaps, theirs.judged_of_use.gaps
    verdict = "ok" if ratio >= ASKED_RATIO.get(job.microbatches, 1.0) else f"{SHORT}: time ratio"
    return (f"{ratio:.1f}", f"{median(other) / median(mine):.1f}", f"{max(other) / max(mine):.1f}", verdict)


def _energyopt(settings: Settings, job: Job, folder: Path, effort: str) -> Result:
    profile, file = folder / "profile.parquet", folder / "frontier.parquet"
    write_profile(profile, job.workload.profile)
    points = 4 if settings.smoke else POINTS
    command = plan_command(profile, file, job.workload.stages, job.microbatches, points, effort)
    took_s = median_wall_s(command, settings.runs or (1 if settings.smoke else RUNS))
    frontier = read_frontier(file)
    times_s = [one.iteration_time_s for one in frontier.points]
    pairs = zip(times_s, frontier_clocks(frontier), strict=True)
    return _result(job, took_s, [Plan(claimed_time_s=time_s, clocks_mhz=clocks) for time_s, clocks in pairs])


def _lowtime(settings: Settings, job: Job, way: str, folder: Path) -> Result:
    if settings.smoke:
        return _result(job, 1.0, _stand_in(job.problem))
    question, answer = folder / "job.json", folder / "result.json"
    question.write_text(json.dumps(question_of(job.problem, job.workload.wait_power_w, way)))
    driver = settings.root / "benchmarks" / "lowtime_driver.py"
    took_s = wall_s([lowtime_python(settings.root), str(driver), str(question), str(answer)])
    return _result(job, took_s, [Plan(**one) for one in json.loads(answer.read_text())["iterations"]])


def _result(job: Job, took_s: float, plans: list[Plan]) -> Result:
    of_use = [plan for plan in plans if plan.claimed_time_s <= job.least_energy_time_s * (1 + ROUNDING)]
    return Result(
        wall_s=took_s,
        plans=len(plans),
        judged=_judge(job, plans),
        plans_of_use=len(of_use),
        judged_of_use=_judge(job, of_use),
    )


def _judge(job: Job, plans: list[Plan]) -> Judged:
    """Judge plans that are spread evenly over the given ones."""
    chosen = [plans[index] for index in _spread(len(plans), POINTS)]
    profile, schedule = job.workload.profile, job.problem.schedule
    costs = [cost_at_clocks(profile, schedule, plan.clocks_mhz) for plan in chosen]
    bounds = bounds_j(job.problem, [cost.time_s for cost in costs])
    return Judged(
        gaps=[cost.energy_j / bound - 1 for cost, bound in zip(costs, bounds, strict=True)],
        excess=[cost.time_s / plan.claimed_time_s - 1 for cost, plan in zip(costs, chosen, strict=True)],
    )


def _spread(count: int, wanted: int) -> list[int]:
    """Indices spread evenly over a frontier, both ends among them."""
    return sorted(set(np.linspace(0, count - 1, wanted).round().astype(int).tolist()))


def question_of(problem: Problem, wait_power_w: float, way: str) -> dict[str, Any]:
    """What the driver reads: lowtime is given the very dependencies that energyopt plans with."""
    return {
        "unit_time_s": UNIT_TIME_S,
        "wait_power_w": wait_power_w,
        "prune_on": way,
        "specs": [
            [[one.sm_clock_mhz, one.time_s, one.energy_j] for one in options] for options in problem.measured
        ],
        "spec_of": problem.front_of.tolist(),
        "edges": np.stack((problem.graph.tail, problem.graph.head), axis=1).tolist(),
    }


def _stand_in(problem: Problem) -> list[Plan]:
    """For smoke runs: all operations at the lowest, then at the highest clock, with made-up claims."""
    ends = [[min, max][end](one.sm_clock_mhz for one in problem.measured[0]) for end in (0, 1)]
    return [Plan(claimed_time_s=1.0, clocks_mhz=[clock] * problem.n_ops) for clock in ends]


BENCHMARK = Benchmark(
    name="against_lowtime", shows="time and realised gap beside lowtime 0.3.0, the graph-cut planner", run=run
)
