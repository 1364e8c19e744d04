"""Frontiers of 20 points from 192 to 262,144 operations: time, memory and gaps of `energyopt plan`.

The pipelines are made of the real stage profiles, a middle stage repeated. Wall times are of whole processes,
start-up included, memory is the largest resident set. The measurements are kept and drawn (`growth`).
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.commands import plan_command
from benchmarks.growth import OURS, Measurement, Measurements, measured
from benchmarks.registry import SHORT, Benchmark, Settings
from benchmarks.workloads import Workload, workloads
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.profile import Profile, write_profile

POINTS = 20
SIZES = ((8, 12), (8, 96), (16, 256), (16, 1024), (64, 2048))  # stages, microbatches
ASKED_S = {1536: 3.0, 8192: 20.0, 32768: 120.0, 262144: 900.0}
ASKED_GAP = {262144: 0.005}
GAP = 0.002
ASKED_GIB = 8.0
COLUMNS = (
    "profile",
    "operations",
    "wall s",
    "asked",
    "GiB",
    "gap max / median %",
    "asked %",
    "verdict",
)


def run(settings: Settings) -> Table:
    with kept(settings) as measurements:
        rows = [
            _row(settings, workload, size, measurements)
            for size in sizes(settings)
            for workload in workloads(settings)
        ]
    title = f"{POINTS} points, 1F1B, middle stages repeated; whole processes, start-up included"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def sizes(settings: Settings) -> list[tuple[int, int]]:
    """Stages and microbatches; those with the microbatches that the command line names."""
    if settings.smoke:
        return [(2, 3)]
    return [size for size in SIZES if settings.microbatches is None or size[1] in settings.microbatches]


@contextmanager
def kept(settings: Settings) -> Iterator[Measurements]:
    """The measurements beside the benchmarks; those of smoke runs are thrown away."""
    with tempfile.TemporaryDirectory() as name:
        yield Measurements(Path(name) if settings.smoke else settings.root / "benchmarks")


def _row(
    settings: Settings, workload: Workload, size: tuple[int, int], measurements: Measurements
) -> tuple[str, ...]:
    stages, microbatches = size
    ops = 2 * stages * microbatches
    with tempfile.TemporaryDirectory() as name:
        profile, frontier = Path(name) / "profile.parquet", Path(name) / "frontier.parquet"
        write_profile(profile, repeated(workload, stages).profile)
        runs = settings.runs or (3 if ops <= 10_000 and not settings.smoke else 1)
        command = plan_command(profile, frontier, stages, microbatches, POINTS)
        walls_s, gibs, _ = zip(*[measured(command) for _ in range(runs)], strict=True)
        gaps = tuple(point.gap for point in read_frontier(frontier).points)
    one = Measurement(
        planner=OURS, profile=workload.name, ops=ops, wall_s=median(walls_s), gib=max(gibs), gaps=gaps
    )
    measurements.add(one)
    asked_s, asked_gap = ASKED_S.get(ops), ASKED_GAP.get(ops, GAP)
    in_time = asked_s is None or one.wall_s <= asked_s
    ok = in_time and max(gaps) <= asked_gap and one.gib <= ASKED_GIB
    return (
        workload.name,
        str(ops),
        f"{one.wall_s:.1f}",
        MISSING if asked_s is None else f"{asked_s:g}",
        f"{one.gib:.2f}",
        f"{100 * max(gaps):.3f} / {100 * median(gaps):.3f}",
        f"{100 * asked_gap:g}",
        "ok" if ok else SHORT,
    )


def repeated(workload: Workload, stages: int) -> Workload:
    """The workload for so many stages: the first and the last as they are, a middle one for all between."""
    return replace(workload, profile=_repeated(workload, stages), stages=stages)


def _repeated(workload: Workload, stages: int) -> Profile:
    last = workload.stages - 1
    if stages == workload.stages:
        return workload.profile
    source = dict.fromkeys(range(stages), workload.stages // 2) | {0: 0, stages - 1: last}
    rows = tuple(
        replace(row, stage=stage)
        for stage in range(stages)
        for row in workload.profile.rows
        if row.stage == source[stage]
    )
    return replace(workload.profile, rows=rows)


BENCHMARK = Benchmark(
    name="scale",
    shows="frontiers of the largest pipelines, their gaps, time and memory",
    run=run,
    by_default=False,
)
