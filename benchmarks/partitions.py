"""What choosing overlap, SM share and clock together saves: clocks only, overlap only, all together.

Simulated jobs, measured by `energyopt profile --overlap` and planned by `energyopt plan`; the last one is a job
where overlap does not pay.
"""

import tempfile
from pathlib import Path

from benchmarks.commands import ENERGYOPT, wall_s
from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.tables import Table
from energyopt.planner.views.comparison import energy_within_j
from energyopt.planner.wording import MISSING, percent, percent_change, relative
from energyopt.schemas.frontier import Frontier, read_frontier

GPU = "a100-sxm4-80gb"
_COMMON = ("--stages", "2", "--sequence-length")
JOBS = {
    "tensor 8": (*_COMMON, "4096", "--tensor-parallel", "8", "--microbatch-size", "8"),
    "context 2 x tensor 4": (
        *_COMMON,
        "4096",
        *("--tensor-parallel", "4", "--context-parallel", "2", "--microbatch-size", "8"),
    ),
    "tensor 2, short": (*_COMMON, "128", "--tensor-parallel", "2", "--microbatch-size", "2"),
}
COLUMNS = (
    "llama-3.2-3b, 2 stages x 8 microbatches",
    "plans of",
    "fastest",
    "in max-clock time",
    "least energy",
    "gap at most",
    "in nanobatches",
    "verdict",
)


def run(settings: Settings) -> Table:
    jobs = dict(list(JOBS.items())[:1]) if settings.smoke else JOBS
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for name, shape in jobs.items() for row in _rows(name, shape, Path(folder), settings)]
    title = f"time and energy against max clock, simulated {GPU}; energy on all GPUs"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _rows(name: str, shape: tuple[str, ...], folder: Path, settings: Settings) -> list[tuple[str, ...]]:
    profile = folder / "profile.parquet"
    effort = ("--windows", "2", "--clocks", "1410", "--comm-sms", "12") if settings.smoke else ()
    measure = [str(ENERGYOPT), "profile", "llama-3.2-3b", "-o", str(profile), "--device", f"sim:{GPU}"]
    wall_s([*measure, *shape, "--overlap", *effort])
    frontiers = {only: _plan(profile, folder, only) for only in ("clocks", "overlap", None)}
    dominated = _dominated(frontiers)
    return [_row(name, only, frontier, dominated) for only, frontier in frontiers.items()]


def _plan(profile: Path, folder: Path, only: str | None) -> Frontier:
    frontier = folder / "frontier.parquet"
    wall_s(
        [
            *(str(ENERGYOPT), "plan", str(profile), "-o", str(frontier)),
            *(
                "--stages",
                "2",
                "--microbatches",
                "8",
                "--min-dwell-s",
                "0",
            ),  # what clock changes take is left out
            *(() if only is None else ("--only", only)),
        ]
    )
    return read_frontier(frontier)


def _dominated(frontiers: dict[str | None, Frontier]) -> bool:
    """Whether a point of all together is beaten in time and energy by one of the others."""
    together = frontiers[None]
    return any(
        other.iteration_time_s <= point.iteration_time_s and other.energy_j < point.energy_j * (1 - 1e-9)
        for point in together.points
        for only, frontier in frontiers.items()
        if only is not None
        for other in frontier.points
    )


def _row(name: str, only: str | None, frontier: Frontier, dominated: bool) -> tuple[str, ...]:
    baseline = frontier.max_clock
    same_j = energy_within_j(frontier, baseline.iteration_time_s)
    ops = frontier.schedule.ops
    cut = [
        frontier.options[op.key][choice].nanobatches > 1
        for point in frontier.points
        for op, choice in zip(ops, point.choices, strict=True)
    ]
    return (
        name,
        "all together" if only is None else f"{only} only",
        percent_change(relative(frontier.points[0].iteration_time_s, baseline.iteration_time_s)),
        MISSING if same_j is None else percent_change(relative(same_j, baseline.energy_j)),
        percent_change(relative(frontier.points[-1].energy_j, baseline.energy_j)),
        percent(max(point.gap for point in frontier.points)),
        percent(sum(cut) / len(cut)),
        (SHORT if dominated else "never dominated") if only is None else "",
    )


BENCHMARK = Benchmark(
    name="partitions",
    shows="clock, overlap and SM share chosen together save more than each alone, on simulated jobs",
    run=run,
)
