"""How long a sweep over 76 layouts of llama-3.3-70b takes on two workers, and what it finds; all simulated.

Some of them have operations that are shorter than a clock change takes.
"""

import tempfile
from pathlib import Path

from benchmarks.commands import ENERGYOPT, wall_s
from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.sweep.layouts import names_of
from energyopt.planner.sweep.ranking import ranked
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, percent_change, relative
from energyopt.schemas.sweep import Sweep, read_sweep

ASKED_S = 300.0
WORKERS = 2
MODEL = ("llama-3.3-70b", "--sequence-length", "8192", "--stages", "4")
SMALL = ("llama-3.2-3b", "--stages", "2", "--clocks", "1200:1980:260", "--windows", "2")
PROFILES = {
    "tp4-mb1": ("--tensor-parallel", "4", "--microbatch-size", "1"),
    "tp8-mb1": ("--tensor-parallel", "8", "--microbatch-size", "1"),
    "tp4-mb2": ("--tensor-parallel", "4", "--microbatch-size", "2"),
    "tp4-mb4": ("--tensor-parallel", "4", "--microbatch-size", "4"),
    "tp8-mb2": ("--tensor-parallel", "8", "--microbatch-size", "2"),
    "tp8-mb4": ("--tensor-parallel", "8", "--microbatch-size", "4"),
    "tp8-mb2-split": ("--tensor-parallel", "8", "--microbatch-size", "2", "--split-backward"),
}
JOBS = """
gpus = 256
global_batch = 512
stages = [2, 4, 8, 16]
chunks = [1, 2]
schedule = ["1f1b", "interleaved-1f1b", "gpipe", "zb-h1"]
"""
SMALL_JOBS = "gpus = 16\nglobal_batch = 8\nstages = [1, 2]\n"
EFFORTS = ("quick", "normal")
COLUMNS = (
    "effort",
    "layouts",
    "failed",
    "wall s",
    "asked s",
    "in the fastest's time",
    "vs its max clock",
    "verdict",
)


def run(settings: Settings) -> Table:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _profile(folder, smoke=settings.smoke)
        efforts, workers = (EFFORTS[:1], 1) if settings.smoke else (EFFORTS, WORKERS)
        rows = tuple(_row(effort, workers, folder) for effort in efforts)
    title = f"energyopt plan --sweep, {workers} workers, 20 points for each layout, start-up included"
    return Table(title=title, columns=COLUMNS, rows=rows)


def _profile(folder: Path, *, smoke: bool) -> None:
    """The profiles, one for each degree and size of microbatch, and the sweep's file."""
    model = SMALL if smoke else MODEL
    names = list(PROFILES)[: 1 if smoke else None]
    for name in names:
        words = ["--device", "sim:h100-sxm5-80gb", *PROFILES[name], "-o", str(folder / f"{name}.parquet")]
        wall_s([str(ENERGYOPT), "profile", *model, *words])
    listed = ", ".join(f'"{name}.parquet"' for name in names)
    (folder / "jobs.toml").write_text(f"profiles = [{listed}]\n{SMALL_JOBS if smoke else JOBS}")


def _row(effort: str, workers: int, folder: Path) -> tuple[str, ...]:
    target = folder / f"{effort}.json"
    words = ["plan", "--sweep", str(folder / "jobs.toml"), "-o", str(target), "--effort", effort]
    took_s = wall_s([str(ENERGYOPT), *words, "--workers", str(workers)])
    sweep = read_sweep(target)
    verdict = "ok" if took_s <= ASKED_S and not sweep.failed else SHORT
    counts = str(len(sweep.layouts)), str(len(sweep.failed))
    return effort, *counts, f"{took_s:.0f}", f"{ASKED_S:g}", *_best(sweep), verdict


def _best(sweep: Sweep) -> tuple[str, str]:
    """The layout of least energy in the fastest one's max-clock time, and its energy against that one's."""
    best = ranked(sweep)[0]
    fastest = min(sweep.layouts, key=lambda one: one.max_clock_time_s)
    if best.in_time is None:
        return "none", MISSING
    saved = percent_change(relative(best.in_time.energy_j, fastest.max_clock_energy_j))
    return names_of([one.layout for one in sweep.layouts])[best.layout], saved


BENCHMARK = Benchmark(
    name="sweep",
    shows="a sweep over 76 layouts of llama-3.3-70b takes at most 5 min",
    run=run,
    by_default=False,
)
