"""Real runs: what the cheapest plan that is no slower than the highest clock saved against it.

Plans 0 and 1 both ran at the highest clock, and what they differ in is the noise of a repetition; both are the
baseline, as `energyopt verify` takes it with two --baseline runs: 95 % intervals with that difference in them,
which with two runs alone (one degree of freedom) are wide. `1` against `0` is one against the other, with the
interval from within the runs that a single baseline gives. Slower is what takes longer than plan 0, or than
that by the slack allowed; where no plan fits, none is shown. Savings are over all iterations, stalls included.
The plan is chosen by the same runs that its saving is told from, which flatters it by at most the noise.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measured_data import RunFiles, measured_jobs, write_runs
from benchmarks.registry import Benchmark, Settings
from energyopt.planner.tables import Table
from energyopt.planner.verification.runs import Run, read_run
from energyopt.planner.verification.saving import measured_saving
from energyopt.planner.verification.statistics import Interval
from energyopt.schemas.telemetry import read_telemetry

SLACKS = (0.0, 0.005, 0.01)
BASELINES = (0, 1)

COLUMNS = (
    *("workload", "slower by at most", "plan", "against", "GPUs", "iterations", "time", "95 % interval"),
    *("energy", "95 % interval"),
)


def run(settings: Settings) -> Table:
    rows: list[tuple[str, ...]] = []
    with TemporaryDirectory() as folder:
        for job in measured_jobs(settings):
            runs = read_runs(write_runs(job, Path(folder)))
            for slack in SLACKS:
                allowed = f"{100 * slack:g} %"
                best = best_plan(runs, slack)
                rows.append(
                    (job.name, allowed, "none", *["-"] * (len(COLUMNS) - 3))
                    if best is None
                    else _row(job.name, allowed, runs, best, BASELINES)
                )
            rows.append(_row(job.name, "-", runs, 1, (0,)))
    return Table(
        title="the cheapest plan that is no slower than the highest clock; and that clock against itself",
        columns=COLUMNS,
        rows=tuple(rows),
    )


def read_runs(files: Sequence[RunFiles]) -> list[Run]:
    """The runs, by plan number."""
    return [read_run(read_telemetry(one.telemetry), str(one.telemetry)) for one in files]


def best_plan(runs: Sequence[Run], slack: float) -> int | None:
    """The number of the plan of least energy that is not slower than plan 0; None where every other plan is."""
    typical = [one.typical(one.of(0)) for one in runs]
    time_s = [float(one.time_s[kept].mean()) for one, kept in zip(runs, typical, strict=True)]
    energy_j = [float(one.energy_j[kept].mean()) for one, kept in zip(runs, typical, strict=True)]
    others = range(len(BASELINES), len(runs))
    fitting = [plan for plan in others if time_s[plan] <= (1 + slack) * time_s[0]]
    return min(fitting, key=lambda plan: energy_j[plan], default=None)


def _row(name: str, allowed: str, runs: Sequence[Run], new: int, olds: Sequence[int]) -> tuple[str, ...]:
    saving, _ = measured_saving(runs[new], [runs[old] for old in olds])
    assert saving.energy is not None and saving.iterations is not None
    return (
        name,
        allowed,
        str(new),
        " and ".join(map(str, olds)),
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
