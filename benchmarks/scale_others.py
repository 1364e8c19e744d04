"""The pipelines of `scale` in plain HiGHS and in lowtime 0.3.0, as far as each gets in ten minutes.

"Plain HiGHS" solves the relaxed problem of the whole pipeline, operation by operation, at 20 iteration times, and
finds no plans. lowtime plans as its own example does. What does not end within `--time-limit-s` (ten minutes if not
given) is stopped, and larger pipelines are not tried. The measurements are kept and drawn (`growth`).
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.against_lowtime import question_of
from benchmarks.bounds import problem_of
from benchmarks.growth import HIGHS, LOWTIME, Measurement, measured
from benchmarks.lowtime_venv import lowtime_python
from benchmarks.registry import Benchmark, Settings, UnavailableError
from benchmarks.scale import kept, repeated, sizes
from benchmarks.workloads import Workload, workloads
from energyopt.planner.tables import Table
from energyopt.schemas.profile import write_profile

LIMIT_S = 600.0
COLUMNS = ("profile", "operations", "planner", "spent")


def run(settings: Settings) -> Table:
    limit_s = settings.time_limit_s or LIMIT_S
    rows = []
    with kept(settings) as measurements:
        for workload in workloads(settings):
            for planner in (HIGHS,) if settings.smoke else (HIGHS, LOWTIME):
                for stages, microbatches in sizes(settings):
                    ops = 2 * stages * microbatches
                    job = repeated(workload, stages)
                    try:
                        one = _measured(settings, planner, job, microbatches, limit_s)
                    except UnavailableError as reason:
                        rows.append((workload.name, str(ops), planner, str(reason)))
                        break
                    measurements.add(one)
                    rows.append((workload.name, str(ops), planner, str(one)))
                    if one.stopped:
                        break
    return Table(title=f"stopped after {limit_s:g} s", columns=COLUMNS, rows=tuple(rows))


def _measured(
    settings: Settings, planner: str, job: Workload, microbatches: int, limit_s: float
) -> Measurement:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if planner == HIGHS:
            command = _highs(job, microbatches, folder)
        else:
            command = _lowtime(settings, job, microbatches, folder)
        wall_s, gib, stopped = measured(command, limit_s, settings.root)
    ops = 2 * job.stages * microbatches
    return Measurement(planner=planner, profile=job.name, ops=ops, wall_s=wall_s, gib=gib, stopped=stopped)


def _highs(job: Workload, microbatches: int, folder: Path) -> list[str]:
    profile = folder / "profile.parquet"
    write_profile(profile, job.profile)
    return [sys.executable, "-m", "benchmarks.plain_highs", str(profile), str(job.stages), str(microbatches)]


def _lowtime(settings: Settings, job: Workload, microbatches: int, folder: Path) -> list[str]:
    question, answer = folder / "job.json", folder / "result.json"
    problem = problem_of(job, microbatches)
    question.write_text(json.dumps(question_of(problem, job.wait_power_w, "effective")))
    driver = settings.root / "benchmarks" / "lowtime_driver.py"
    return [lowtime_python(settings.root), str(driver), str(question), str(answer)]


BENCHMARK = Benchmark(
    name="scale_others",
    shows="the same pipelines in plain HiGHS and in lowtime, for ten minutes each",
    run=run,
    by_default=False,
)
