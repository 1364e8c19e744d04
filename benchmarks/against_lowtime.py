"""lowtime 0.3.0 and energyopt on the same profile and job, back to back, each in its own process.

Both frontiers are judged alike: about 20 plans of each are run through the simulator at the measured times and
energies of their clocks, and compared with the certified bound at the time that comes out.
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
from benchmarks.recompute import Cost, cost_at_clocks, frontier_costs
from benchmarks.registry import SHORT, Benchmark, Settings
from benchmarks.workloads import Workload, workloads
from energyopt.planner.problem import Problem
from energyopt.planner.tables import Table
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.profile import write_profile

MICROBATCHES = (12,)
POINTS = 20
RUNS = 3
UNIT_TIME_S = 0.001
ASKED_RATIO = {12: 50.0}  # times faster

COLUMNS = (
    "profile", "microbatches", "planner", "wall s", "plans", "median gap %", "max gap %", "real / claimed time %",
    "time ratio", "median gap ratio", "max gap ratio", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One planner on one job; excess is real over claimed iteration time, less 1, for each judged plan."""

    wall_s: float
    plans: int
    gaps: list[float]
    excess: list[float]


def run(settings: Settings) -> Table:
    microbatches = settings.microbatches or ((3,) if settings.smoke else MICROBATCHES)
    lines = [_lines(settings, one, count) for one in workloads(settings) for count in microbatches]
    title = (
        f"wall: energyopt's is a median of {settings.runs or RUNS} runs, lowtime's one run; 8 stages, 1F1B"
    )
    return Table(title=title, columns=COLUMNS, rows=tuple(line for pair in lines for line in pair))


def _lines(settings: Settings, workload: Workload, microbatches: int) -> list[tuple[str, ...]]:
    problem = problem_of(workload, microbatches)
    with TemporaryDirectory() as folder:
        theirs = _lowtime(settings, workload, problem, Path(folder))
        ours = _energyopt(settings, workload, problem, microbatches, Path(folder))
    ratio = theirs.wall_s / ours.wall_s
    gap_ratios = [f"{judge(theirs.gaps) / judge(ours.gaps):.1f}" for judge in (median, max)]
    verdict = "ok" if ratio >= ASKED_RATIO.get(microbatches, 1.0) else f"{SHORT}: time ratio"
    job = (workload.name, str(microbatches))
    return [
        (*job, "lowtime", *_cells(theirs), "", "", "", ""),
        (*job, "energyopt", *_cells(ours), f"{ratio:.1f}", *gap_ratios, verdict),
    ]


def _cells(one: Judged) -> tuple[str, ...]:
    spread = f"{min(one.excess) * 100:+.2f} to {max(one.excess) * 100:+.2f}"
    gaps = (median(one.gaps) * 100, max(one.gaps) * 100)
    return (f"{one.wall_s:.2f}", str(one.plans), *(f"{gap:.3f}" for gap in gaps), spread)


def _energyopt(
    settings: Settings, workload: Workload, problem: Problem, microbatches: int, folder: Path
) -> Judged:
    profile, file = folder / "profile.parquet", folder / "frontier.parquet"
    write_profile(profile, workload.profile)
    command = plan_command(profile, file, workload.stages, microbatches, 4 if settings.smoke else POINTS)
    took_s = median_wall_s(command, settings.runs or (1 if settings.smoke else RUNS))
    frontier = read_frontier(file)
    claimed_s = [point.iteration_time_s for point in frontier.points]
    return _judge(problem, took_s, len(claimed_s), claimed_s, frontier_costs(workload.profile, frontier))


def _lowtime(settings: Settings, workload: Workload, problem: Problem, folder: Path) -> Judged:
    took_s, iterations = _run_lowtime(settings, workload, problem, folder)
    chosen = [iterations[index] for index in _spread(len(iterations), POINTS)]
    schedule, claimed_s = problem.schedule, [one["claimed_time_s"] for one in chosen]
    costs = [cost_at_clocks(workload.profile, schedule, one["clocks_mhz"]) for one in chosen]
    return _judge(problem, took_s, len(iterations), claimed_s, costs)


def _spread(count: int, wanted: int) -> list[int]:
    """Indices spread evenly over a frontier, both ends among them."""
    return sorted(set(np.linspace(0, count - 1, wanted).round().astype(int).tolist()))


def _judge(problem: Problem, took_s: float, plans: int, claimed_s: list[float], costs: list[Cost]) -> Judged:
    bounds = bounds_j(problem, [cost.time_s for cost in costs])
    return Judged(
        wall_s=took_s,
        plans=plans,
        gaps=[cost.energy_j / bound - 1 for cost, bound in zip(costs, bounds, strict=True)],
        excess=[cost.time_s / claim - 1 for cost, claim in zip(costs, claimed_s, strict=True)],
    )


def _run_lowtime(
    settings: Settings, workload: Workload, problem: Problem, folder: Path
) -> tuple[float, list[dict[str, Any]]]:
    """Wall time, and the iterations as `lowtime_driver` writes them, slowest first."""
    if settings.smoke:
        return 1.0, _stand_in(problem)
    job, result = folder / "job.json", folder / "result.json"
    job.write_text(json.dumps(_job(workload, problem)))
    driver = settings.root / "benchmarks" / "lowtime_driver.py"
    took_s = wall_s([lowtime_python(settings.root), str(driver), str(job), str(result)])
    return took_s, json.loads(result.read_text())["iterations"]


def _job(workload: Workload, problem: Problem) -> dict[str, Any]:
    """What the driver reads: lowtime is given the very dependencies that energyopt plans with."""
    return {
        "unit_time_s": UNIT_TIME_S,
        "wait_power_w": workload.wait_power_w,
        "specs": [
            [[one.sm_clock_mhz, one.time_s, one.energy_j] for one in options] for options in problem.measured
        ],
        "spec_of": problem.front_of.tolist(),
        "edges": np.stack((problem.graph.tail, problem.graph.head), axis=1).tolist(),
    }


def _stand_in(problem: Problem) -> list[dict[str, Any]]:
    """For smoke runs: all operations at the lowest, then at the highest clock, with made-up claims."""
    ends = [[min, max][end](one.sm_clock_mhz for one in problem.measured[0]) for end in (0, 1)]
    return [{"claimed_time_s": 1.0, "clocks_mhz": [clock] * problem.n_ops} for clock in ends]


BENCHMARK = Benchmark(
    name="against_lowtime", shows="time and realised gap beside lowtime 0.3.0, the graph-cut planner", run=run
)
