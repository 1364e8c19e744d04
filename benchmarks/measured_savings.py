"""Real runs: what the best plan without slowdown saved against the plan that ran at the highest clock.

Plans 0 and 1 both ran at the highest clock. What they differ in is the noise of a repetition, which no interval
from within runs contains; a plan counts as no slower where it takes at most 0.3 % more than the slower of the two.
Savings are over all iterations, stalls included, with the 95 % interval that `energyopt verify --baseline` prints.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.measured_data import RunFiles, measured_jobs, write_runs
from benchmarks.registry import Benchmark, Settings
from energyopt.planner.tables import Table
from energyopt.planner.verification.runs import Run, read_run
from energyopt.planner.verification.saving import measured_saving
from energyopt.planner.verification.statistics import Interval
from energyopt.schemas.telemetry import read_telemetry

NO_SLOWER = 1.003

COLUMNS = (
    "workload",
    "plan",
    "against",
    "GPUs",
    "iterations",
    "time",
    "95 % interval",
    "energy",
    "95 % interval",
)


def run(settings: Settings) -> Table:
    rows: list[tuple[str, ...]] = []
    with TemporaryDirectory() as folder:
        for job in measured_jobs(settings):
            runs = read_runs(write_runs(job, Path(folder)))
            best = best_plan(runs)
            pairs = ((best, 0), (best, 1), (1, 0))
            rows += [_row(job.name, runs, new, old) for new, old in pairs]
    return Table(
        title="the cheapest plan that is no slower than the highest clock; and that clock against itself",
        columns=COLUMNS,
        rows=tuple(rows),
    )


def read_runs(files: Sequence[RunFiles]) -> list[Run]:
    """The runs, by plan number."""
    return [read_run(read_telemetry(one.telemetry), str(one.telemetry)) for one in files]


def best_plan(runs: Sequence[Run]) -> int:
    """The number of the plan of least energy, plans 0 and 1 aside, that is no slower than they are."""
    typical = [one.typical(one.of(0)) for one in runs]
    time_s = [float(one.time_s[kept].mean()) for one, kept in zip(runs, typical, strict=True)]
    energy_j = [float(one.energy_j[kept].mean()) for one, kept in zip(runs, typical, strict=True)]
    fitting = [plan for plan in range(2, len(runs)) if time_s[plan] <= NO_SLOWER * max(time_s[:2])]
    return min(fitting, key=lambda plan: energy_j[plan], default=int(np.argmin(time_s[2:])) + 2)


def _row(name: str, runs: Sequence[Run], new: int, old: int) -> tuple[str, ...]:
    saving, _ = measured_saving(runs[new], runs[old])
    assert saving.energy is not None and saving.iterations is not None
    return (
        name,
        str(new),
        f"plan {old}",
        str(saving.gpus),
        f"{saving.iterations[0]}, {saving.iterations[1]}",
        *_cells(saving.time),
        *_cells(saving.energy),
    )


def _cells(one: Interval) -> tuple[str, str]:
    interval = (
        "-" if one.low is None or one.high is None else f"{100 * one.low:+.2f} to {100 * one.high:+.2f} %"
    )
    return f"{100 * one.value:+.2f} %", interval


BENCHMARK = Benchmark(
    name="measured_savings",
    shows="what the best real plan saved against the highest clock, with its interval",
    run=run,
)
