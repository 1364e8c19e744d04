"""Frontiers of 20 points from 192 to 262,144 operations: time, memory and gaps, beside plain HiGHS and lowtime.

The pipelines are made of the real stage profiles, a middle stage repeated. `energyopt plan` and lowtime are whole
processes; "plain HiGHS" solves the relaxed problem of the whole pipeline, operation by operation, at the same 20
iteration times, and finds no plans. Memory is the process's largest resident set. What does not end within
`--time-limit-s` (ten minutes if not given) is stopped, and larger ones are not tried.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.bounds import problem_of
from benchmarks.commands import plan_command
from benchmarks.lowtime_venv import lowtime_python
from benchmarks.registry import SHORT, Benchmark, Settings, UnavailableError
from benchmarks.workloads import Workload, workloads
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING
from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.profile import Profile, write_profile

POINTS = 20
LIMIT_S = 600.0
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
    "plain HiGHS: wall s, GiB",
    "lowtime: wall s, GiB",
    "verdict",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Wall time and largest resident set of a process."""

    wall_s: float
    gib: float

    def __str__(self) -> str:
        return f"{self.wall_s:.1f}, {self.gib:.2f}"


def run(settings: Settings) -> Table:
    sizes = ((2, 3),) if settings.smoke else SIZES
    rows = []
    for workload in workloads(settings):
        alive = {"highs", "lowtime"}
        rows += [_row(settings, workload, size, alive) for size in sizes]
    title = f"{POINTS} points, 1F1B, middle stages repeated; whole processes, start-up included"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _row(settings: Settings, workload: Workload, size: tuple[int, int], alive: set[str]) -> tuple[str, ...]:
    stages, microbatches = size
    ops = 2 * stages * microbatches
    job = replace(workload, profile=repeated(workload, stages), stages=stages)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile, frontier = folder / "profile.parquet", folder / "frontier.parquet"
        write_profile(profile, job.profile)
        runs = settings.runs or (3 if ops <= 10_000 and not settings.smoke else 1)
        spent = [_spent(plan_command(profile, frontier, stages, microbatches, POINTS)) for _ in range(runs)]
        gaps = [point.gap for point in read_frontier(frontier).points]
        others = {
            one: _other(settings, one, job, microbatches, profile, folder, alive)
            for one in ("highs", "lowtime")
        }
    wall_s, gib = median(one.wall_s for one in spent), max(one.gib for one in spent)
    asked_s, asked_gap = ASKED_S.get(ops), ASKED_GAP.get(ops, GAP)
    kept = (asked_s is None or wall_s <= asked_s) and max(gaps) <= asked_gap and gib <= ASKED_GIB
    return (
        workload.name,
        str(ops),
        f"{wall_s:.1f}",
        MISSING if asked_s is None else f"{asked_s:g}",
        f"{gib:.2f}",
        f"{100 * max(gaps):.3f} / {100 * median(gaps):.3f}",
        f"{100 * asked_gap:g}",
        *others.values(),
        "ok" if kept else SHORT,
    )


def repeated(workload: Workload, stages: int) -> Profile:
    """The profile for so many stages: the first and the last as they are, a middle one for all between."""
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


def _other(
    settings: Settings,
    name: str,
    job: Workload,
    microbatches: int,
    profile: Path,
    folder: Path,
    alive: set[str],
) -> str:
    """Another planner's cost; once it was too slow it is not tried again."""
    if name not in alive or settings.smoke:
        return MISSING
    try:
        command = (
            [sys.executable, "-m", "benchmarks.plain_highs", str(profile), str(job.stages), str(microbatches)]
            if name == "highs"
            else _lowtime_command(settings, job, microbatches, folder)
        )
        return str(_spent(command, settings.time_limit_s or LIMIT_S, settings.root))
    except subprocess.TimeoutExpired:
        alive.discard(name)
        return f"more than {settings.time_limit_s or LIMIT_S:g}"
    except UnavailableError as reason:
        alive.discard(name)
        return str(reason)


def _lowtime_command(settings: Settings, job: Workload, microbatches: int, folder: Path) -> list[str]:
    from benchmarks.against_lowtime import question_of

    question, answer = folder / "job.json", folder / "result.json"
    problem = problem_of(job, microbatches)
    question.write_text(json.dumps(question_of(problem, job.wait_power_w, "effective")))
    driver = settings.root / "benchmarks" / "lowtime_driver.py"
    return [lowtime_python(settings.root), str(driver), str(question), str(answer)]


def _spent(command: list[str], limit_s: float | None = None, folder: Path | None = None) -> Spent:
    """Run a process to its end; wait4 tells its own largest resident set.

    Raises:
        UnavailableError: it failed.
        TimeoutExpired: it took longer than the limit, and was stopped.
    """
    began_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        took_s = time.perf_counter() - began_s
        if pid:
            break
        if limit_s is not None and took_s > limit_s:
            process.kill()
            os.wait4(process.pid, 0)
            raise subprocess.TimeoutExpired(command, limit_s)
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UnavailableError(f"{Path(command[0]).name} exited with {process.returncode}")
    return Spent(wall_s=took_s, gib=usage.ru_maxrss / 2**20)


BENCHMARK = Benchmark(
    name="scale",
    shows="frontiers of the largest pipelines, their gaps, time and memory",
    run=run,
    by_default=False,
)
