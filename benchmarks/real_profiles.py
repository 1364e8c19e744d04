"""Both real profiles at 12 to 96 microbatches: how near the bound, how much is saved, how long it takes.

Every number is worked out again from the profile's rows and the clocks in the frontier file; only the certified
bounds of its points are the file's own. Savings are against the max-clock baseline, at that baseline's own time.

Perseus' published points are placed on the same baseline in two ways, since their times are rounded down. `claimed`
takes their times at face value: the cheapest point within the baseline's time, which can lie beyond what the bound
allows. `fastest` takes their fastest point, which needs no trust in their times.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.bounds import bounds_j, problem_of
from benchmarks.commands import plan_command, wall_s
from benchmarks.recompute import Cost, frontier_costs, max_clock_cost
from benchmarks.registry import SHORT, Benchmark, Settings
from benchmarks.workloads import Workload, published, workloads
from energyopt.planner.tables import Table
from energyopt.schemas.frontier import Frontier, read_frontier
from energyopt.schemas.profile import write_profile

MICROBATCHES = (12, 24, 48, 96)
POINTS = 20
RUNS = 3
ASKED_GAP = 0.002
ASKED_MEDIAN_GAP = {12: 0.001, 24: 0.001, 48: 0.0006, 96: 0.0006}
ASKED_WALL_S = {12: 3.0, 96: 20.0}
ASKED_SAVING = {
    "gpt3-175b.a100-sxm-80gb": {12: 0.159, 24: 0.147, 48: 0.140, 96: 0.137},
    "bloom-176b.a40-48gb": {12: 0.108, 24: 0.079, 48: 0.064, 96: 0.055},
}
SAME_TIME = 1e-9  # relative difference between two sums of the same times

COLUMNS = (
    "profile", "microbatches", "points", "max gap %", "median gap %", "saving %", "bound %", "Perseus claimed %",
    "Perseus fastest %", "asked %", "median wall s", "asked s", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one job gave; `perseus` holds the savings as claimed and of the fastest point."""

    gaps: list[float]
    saving: float
    bound_saving: float
    perseus: tuple[float | None, float | None]
    walls_s: list[float]
    same_bytes: bool
    times_hold: bool


def run(settings: Settings) -> Table:
    microbatches = settings.microbatches or ((3,) if settings.smoke else MICROBATCHES)
    rows = tuple(_row(settings, one, count) for one in workloads(settings) for count in microbatches)
    title = f"{POINTS} points, 1F1B; `energyopt plan` in its own process, start-up included"
    return Table(title=title, columns=COLUMNS, rows=rows)


def _row(settings: Settings, workload: Workload, microbatches: int) -> tuple[str, ...]:
    with TemporaryDirectory() as folder:
        found = _measure(settings, workload, microbatches, Path(folder))
    asked_saving = ASKED_SAVING.get(workload.file, {}).get(microbatches)
    asked_wall_s = ASKED_WALL_S.get(microbatches)
    return (
        workload.name,
        str(microbatches),
        str(len(found.gaps)),
        _percent(max(found.gaps), 3),
        _percent(median(found.gaps), 3),
        *(_percent(one, 2) for one in (found.saving, found.bound_saving, *found.perseus)),
        _percent(asked_saving, 1),
        f"{median(found.walls_s):.2f}",
        "-" if asked_wall_s is None else f"{asked_wall_s:g}",
        _verdict(found, microbatches, asked_saving, asked_wall_s),
    )


def _measure(settings: Settings, workload: Workload, microbatches: int, folder: Path) -> Found:
    profile, points = folder / "profile.parquet", 4 if settings.smoke else POINTS
    write_profile(profile, workload.profile)
    files = [
        folder / f"{number}.parquet" for number in range(settings.runs or (1 if settings.smoke else RUNS))
    ]
    walls_s = [wall_s(plan_command(profile, file, workload.stages, microbatches, points)) for file in files]
    frontier = read_frontier(files[0])
    costs = frontier_costs(workload.profile, frontier)
    base = max_clock_cost(workload.profile, workload.schedule(microbatches))
    at_base = next(number for number, one in enumerate(frontier.points) if "max_clock_time" in one.names)
    (bound_j,) = bounds_j(problem_of(workload, microbatches), [base.time_s])
    return Found(
        gaps=[
            cost.energy_j / one.lower_bound_j - 1 for cost, one in zip(costs, frontier.points, strict=True)
        ],
        saving=1 - costs[at_base].energy_j / base.energy_j,
        bound_saving=1 - bound_j / base.energy_j,
        perseus=_perseus_savings(published(settings, workload, microbatches), base),
        walls_s=walls_s,
        same_bytes=len({file.read_bytes() for file in files}) == 1,
        times_hold=_times_hold(frontier, costs, base, at_base),
    )


def _perseus_savings(points: list[tuple[float, float]], base: Cost) -> tuple[float | None, float | None]:
    """As claimed, and of the fastest point; None where nothing was published."""
    in_time = [energy_j for time_s, energy_j in points if time_s <= base.time_s]
    if not in_time:
        return None, None
    return 1 - min(in_time) / base.energy_j, 1 - min(points)[1] / base.energy_j


def _times_hold(frontier: Frontier, costs: list[Cost], base: Cost, at_base: int) -> bool:
    """Whether each predicted time is the simulated one, and the baseline's point meets the baseline's time."""
    pairs = zip(frontier.points, costs, strict=True)
    same = all(abs(one.iteration_time_s / cost.time_s - 1) <= SAME_TIME for one, cost in pairs)
    return same and costs[at_base].time_s <= base.time_s * (1 + SAME_TIME)


def _verdict(found: Found, microbatches: int, asked_saving: float | None, asked_wall_s: float | None) -> str:
    missed = {
        "gap": max(found.gaps) > ASKED_GAP,
        "median gap": median(found.gaps) > ASKED_MEDIAN_GAP.get(microbatches, ASKED_GAP),
        "saving": asked_saving is not None and found.saving < asked_saving,
        "wall time": asked_wall_s is not None and median(found.walls_s) > asked_wall_s,
        "bytes differ between runs": not found.same_bytes,
        "predicted times": not found.times_hold,
    }
    names = [name for name, short in missed.items() if short]
    return f"{SHORT}: {', '.join(names)}" if names else "ok"


def _percent(share: float | None, digits: int) -> str:
    return "-" if share is None else f"{share * 100:.{digits}f}"


BENCHMARK = Benchmark(
    name="real_profiles", shows="gap, saving and time of 20-point frontiers of both real profiles", run=run
)
