"""Real runs: fit a third of the plans with `energyopt calibrate`, predict the others from their clocks alone.

A third is every third plan, by number; all three are shown. The others are predicted by `energyopt verify
--profile` from the clocks in their plan files and the calibrated profile, and compared with the mean of their
iterations that did not stall. Nothing of their own is used. `own times` is the easier variant: the same fixed
and P2P time over the operations' times that were measured under the plan itself, which shows how much of the
error is the run's own noise, that no prediction from clocks can undercut. `outside` counts plans that `verify`
refuses since they run far from any clock of the fitted third. The wait power of the A100-80GB-PCIe is not known
from elsewhere: the first workload on a board must tell it, and what the same third of it says is given to the
next. Any other refusal is an error. Each workload is judged by itself.
"""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measured_data import MeasuredJob, RunFiles, measured_jobs, write_runs
from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.cli.main import main
from energyopt.planner.simulation import simulate
from energyopt.planner.tables import Table
from energyopt.schemas.profile import read_profile

THIRDS = 3
ASKED_TIME = (0.002, 0.015)  # median and largest
ASKED_ENERGY = 0.004  # median, of single GPUs
WAIT_POWER_W = {"A40-48GB": 70.38, "made up": 60.0}  # by the data's authors
SKIP = ("--skip", "0")  # the data's authors have left the warm-up out
OUTSIDE = "far from any row of the profile"

COLUMNS = (
    "workload", "third", "fitted", "predicted", "outside", "time: median %", "max %", "own times: median %",
    "GPU energy: median %", "max %", "verdict",
)  # fmt: skip


class CommandError(Exception):
    """A command failed that must not."""


@dataclass(slots=True)
class Errors:
    """Relative errors of what was predicted."""

    time: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    fitted: int = 0
    outside: int = 0

    def add(self, other: "Errors") -> None:
        """Take in the errors of another third."""
        self.time += other.time
        self.own += other.own
        self.energy += other.energy
        self.fitted += other.fitted
        self.outside += other.outside


def run(settings: Settings) -> Table:
    rows, waits = [], dict(WAIT_POWER_W)
    with TemporaryDirectory() as folder:
        for job in measured_jobs(settings):
            files, every = write_runs(job, Path(folder)), Errors()
            for third in range(THIRDS):
                wait_w = waits.get(job.gpu, waits.get(f"{job.gpu}, {third}"))
                errors, fitted_w = measure(job, files, third, Path(folder), wait_w)
                waits.setdefault(f"{job.gpu}, {third}", fitted_w)
                every.add(errors)
                rows.append(_row(job.name, f"{third + 1} of {THIRDS}", errors, judged=False))
            rows.append(_row(job.name, "all", every, judged=True))
    return Table(
        title="predicting measured runs from their clocks and a third of the others; 1F1B, one GPU per stage",
        columns=COLUMNS,
        rows=tuple(rows),
    )


def measure(
    job: MeasuredJob, files: Sequence[RunFiles], third: int, folder: Path, wait_w: float | None
) -> tuple[Errors, float]:
    """Fit to one third and predict the rest, through the command line; also the fitted wait power, W."""
    profile = folder / f"{job.name}.{third}.profile.parquet"
    fitted = [one for one in files if one.number % THIRDS == third]
    known = [] if wait_w is None else ["--wait-power-w", str(wait_w)]
    runs = [str(one.telemetry) for one in fitted]
    code, _, words = command("calibrate", *runs, "-o", str(profile), *SKIP, *known)
    if code:
        raise CommandError(f"calibrate {job.name}, third {third + 1}: exit code {code}, {words}")
    errors = Errors(fitted=len(fitted))
    meta = read_profile(profile).metadata
    for one in files:
        if one.number % THIRDS == third:
            continue
        code, found, words = command(
            "verify", str(one.plan), str(one.telemetry), "--profile", str(profile), *SKIP, "--json"
        )
        if code == 2 and OUTSIDE in words:
            errors.outside += 1
            continue
        if code > 1:
            raise CommandError(f"verify {job.name}, plan {one.number}: exit code {code}, {words}")
        section = found["sections"][0]
        errors.time.append(abs(section["time"]["deviation"]["value"]))
        errors.energy += [abs(stage["energy"]["deviation"]["value"]) for stage in section["stages"]]
        own = simulate(
            job.schedule, job.time_s[one.number].tolist(), meta.p2p_time_s or 0.0, meta.fixed_time_s or 0.0
        )
        errors.own.append(abs(section["time"]["measured"]["mean"] / own.iteration_time_s - 1))
    return errors, meta.wait_power_w


def command(*words: str) -> tuple[int, Any, str]:
    """Run a command of energyopt in this process; its exit code, what it printed if that is JSON, what it said."""
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        code = main(list(words))
    found = json.loads(printed.getvalue()) if "--json" in words and code < 2 else None
    return code, found, said.getvalue().strip()


def _row(name: str, third: str, errors: Errors, *, judged: bool) -> tuple[str, ...]:
    return (
        name,
        third,
        str(errors.fitted),
        str(len(errors.time)),
        str(errors.outside),
        f"{100 * median(errors.time):.3f}",
        f"{100 * max(errors.time):.2f}",
        f"{100 * median(errors.own):.3f}",
        f"{100 * median(errors.energy):.2f}",
        f"{100 * max(errors.energy):.2f}",
        _verdict(errors) if judged else "",
    )


def _verdict(errors: Errors) -> str:
    floor = f"own times {100 * median(errors.own):.3f}"
    missed = {
        f"median time ({floor})": median(errors.time) > ASKED_TIME[0],
        "largest time": max(errors.time) > ASKED_TIME[1],
        "median energy": median(errors.energy) > ASKED_ENERGY,
    }
    names = [name for name, short in missed.items() if short]
    outside = f"; {errors.outside} of {errors.outside + len(errors.time)} outside" if errors.outside else ""
    return (f"{SHORT}: {', '.join(names)}" if names else "ok") + outside


BENCHMARK = Benchmark(
    name="measured_runs", shows="real runs predicted by a profile fitted to a third of them", run=run
)
