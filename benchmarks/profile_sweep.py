"""How long a simulated sweep takes, and what its plan saves; all of it simulated."""

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.commands import ENERGYOPT, wall_s
from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.tables import Table
from energyopt.planner.wording import percent_change, relative
from energyopt.schemas.frontier import read_frontier

ASKED_S = 20.0
RUNS = 5
GPUS = ("a100-sxm4-40gb", "a100-sxm4-80gb", "a40", "h100-sxm5-80gb", "h200")
SHAPE = ("--stages", "2", "--microbatch-size", "4", "--sequence-length", "4096")
COLUMNS = ("simulated GPU", "median s", "asked s", "energy at max clock's time", "bound", "verdict")


def run(settings: Settings) -> Table:
    runs = settings.runs or (1 if settings.smoke else RUNS)
    gpus = GPUS[:1] if settings.smoke else GPUS
    with tempfile.TemporaryDirectory() as folder:
        rows = tuple(_row(gpu, runs, Path(folder)) for gpu in gpus)
    title = (
        f"energyopt profile llama-3.2-3b, 2 stages, 18 clocks, {runs} runs; plan for 16 microbatches, 2 GPUs"
    )
    return Table(title=title, columns=COLUMNS, rows=rows)


def _row(gpu: str, runs: int, folder: Path) -> tuple[str, ...]:
    profile, frontier = folder / "profile.parquet", folder / "frontier.parquet"
    sweep = [str(ENERGYOPT), "profile", "llama-3.2-3b", "-o", str(profile), "--device", f"sim:{gpu}", *SHAPE]
    middle_s = median(wall_s(sweep) for _ in range(runs))
    wall_s(
        [str(ENERGYOPT), "plan", str(profile), "-o", str(frontier), "--stages", "2", "--microbatches", "16"]
    )
    found = read_frontier(frontier)
    point = next(one for one in found.points if "max_clock_time" in one.names)
    saved = relative(point.energy_j, found.max_clock.energy_j)
    bound = relative(point.lower_bound_j, found.max_clock.energy_j)
    verdict = "ok" if middle_s <= ASKED_S and saved is not None and saved < 0 else SHORT
    return gpu, f"{middle_s:.1f}", f"{ASKED_S:g}", percent_change(saved), percent_change(bound), verdict


BENCHMARK = Benchmark(
    name="profile_sweep", shows="a simulated sweep takes at most 20 s, and its plan saves energy", run=run
)
