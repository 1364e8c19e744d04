"""How soon the command line answers."""

from statistics import median

from benchmarks.commands import ENERGYOPT, wall_s
from benchmarks.registry import SHORT, Benchmark, Settings
from energyopt.planner.tables import Table

ASKED_S = 0.3
RUNS = 11


def run(settings: Settings) -> Table:
    runs = settings.runs or (1 if settings.smoke else RUNS)
    walls_s = [wall_s([str(ENERGYOPT), "--help"]) for _ in range(runs)]
    middle_s = median(walls_s)
    verdict = "ok" if middle_s <= ASKED_S else SHORT
    row = ("energyopt --help", f"{middle_s:.3f}", f"{max(walls_s):.3f}", f"{ASKED_S}", verdict)
    columns = ("command", "median s", "slowest s", "asked s", "verdict")
    return Table(title=f"wall time of {runs} runs", columns=columns, rows=(row,))


BENCHMARK = Benchmark(name="startup", shows="the help text comes within 0.3 s", run=run)
