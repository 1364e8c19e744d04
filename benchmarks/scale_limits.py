"""Frontiers of 20 points under limits on clock changes, from 1,536 to 32,768 operations: time and gaps.

One limit is a number of changes, the other how long a clock has to be kept, which is as long as many operations
take. Gaps are to bounds that know each limit only in part, so what a limit costs at least is among them.
"""

import time
from statistics import median

from benchmarks.registry import Benchmark, Settings
from benchmarks.scale import POINTS, repeated
from benchmarks.workloads import Workload, workloads
from energyopt.planner.frontier import plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.tables import Table

SIZES = ((8, 96), (16, 256), (16, 1024))  # stages, microbatches
PER_STAGE = 16  # clock changes
OPERATIONS = 6.0  # of the shortest duration in the profile, that a clock has to be kept for
COLUMNS = ("profile", "operations", "limit", "wall s", "points", "gap at the fastest %", "gap max / median %")


def run(settings: Settings) -> Table:
    sizes = [(2, 3)] if settings.smoke else SIZES
    rows = [
        _row(repeated(workload, size[0]), size[1], limit)
        for size in sizes
        if settings.microbatches is None or size[1] in settings.microbatches
        for workload in workloads(settings)
        for limit in _limits(workload, size[0])
    ]
    title = f"{POINTS} points, 1F1B, middle stages repeated; planning alone, in one process"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _limits(workload: Workload, stages: int) -> list[SwitchLimits]:
    shortest_s = min(row.time_s for row in workload.profile.rows)
    return [
        SwitchLimits(max_switches=PER_STAGE * stages),
        SwitchLimits(min_dwell_s=round(OPERATIONS * shortest_s, 3)),
    ]


def _row(workload: Workload, microbatches: int, limit: SwitchLimits) -> tuple[str, ...]:
    job = workload.profile, workload.pipeline(microbatches), workload.schedule(microbatches)
    began_s = time.perf_counter()
    frontier = plan_frontier(*job, points=POINTS, limits=limit)
    wall_s = time.perf_counter() - began_s
    gaps = [100 * point.gap for point in frontier.points]
    wish = f"kept {limit.min_dwell_s:g} s" if limit.max_switches is None else f"{limit.max_switches} changes"
    return (
        workload.name,
        str(len(frontier.schedule.ops)),
        wish,
        f"{wall_s:.1f}",
        str(len(gaps)),
        f"{gaps[0]:.2f}",
        f"{max(gaps):.2f} / {median(gaps):.2f}",
    )


BENCHMARK = Benchmark(
    name="scale_limits",
    shows="long pipelines whose clocks change seldom: gaps and time",
    run=run,
    by_default=False,
)
