"""What fewer clock changes cost on both real profiles: at 1.0, 1.02, 1.05 and 1.1 times the baseline's time.

Every row is a plan that the simulator ran, beside the bound on plans of its own kind. Asked is that on the A100 a
tenth of the free plan's changes costs at most 0.3 % more energy at the baseline's own time, and a median gap of
0.3 %.
"""

import time
from dataclasses import dataclass
from statistics import median

from benchmarks.registry import SHORT, Benchmark, Settings
from benchmarks.workloads import Workload, workloads
from energyopt.planner.frontier import plan_and_weigh, plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.tradeoff import FREE, Tradeoff, TradeoffPoint
from energyopt.planner.tables import Table

MICROBATCHES = (12, 96)
POINTS = 20
ASKED_GAP = 0.003
ASKED_ABOVE_FREE = 0.003
ASKED_WALL_S = 60.0
COLUMNS = (
    "profile", "microbatches", "x baseline's time", "plans", "switches", "energy_j", "saving %", "above free %",
    "bound_j", "gap %", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The trade-off of one job and how long it took beyond its free frontier, and a limited frontier."""

    tradeoff: Tradeoff
    tradeoff_s: float
    frontier_s: float
    frontier_gap: float


def run(settings: Settings) -> Table:
    microbatches = settings.microbatches or ((3,) if settings.smoke else MICROBATCHES)
    rows = [
        row for one in workloads(settings) for count in microbatches for row in _rows(settings, one, count)
    ]
    title = "energies of all GPUs for one iteration; times beyond those of the free frontier"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _rows(settings: Settings, workload: Workload, microbatches: int) -> list[tuple[str, ...]]:
    found = _measure(settings, workload, microbatches)
    head = workload.name, str(microbatches)
    rows = [(*head, *_cells(point, workload)) for point in found.tradeoff.points]
    gaps = [one.gap for one in found.tradeoff.points if one.gap is not None and one.kind != FREE]
    short = [] if median(gaps) <= ASKED_GAP else ["median gap"]
    short += ["wall time"] if max(found.tradeoff_s, found.frontier_s) > ASKED_WALL_S else []
    summary = (
        f"trade-off {found.tradeoff_s:.0f} s, a limited frontier {found.frontier_s:.0f} s, its median gap"
    )
    frontier_gap = f"{100 * found.frontier_gap:.3f}"
    rows.append((*head, "", summary, *("",) * 5, frontier_gap, ""))
    rows.append(
        (*head, "", "median gap of the rows above", *("",) * 5, f"{100 * median(gaps):.3f}", _verdict(short))
    )
    return rows


def _measure(settings: Settings, workload: Workload, microbatches: int) -> Measured:
    job = workload.profile, workload.pipeline(microbatches), workload.schedule(microbatches)
    points = 4 if settings.smoke else POINTS
    began_s = time.perf_counter()
    free = plan_frontier(*job, points=points)
    free_s = time.perf_counter() - began_s
    frontier, tradeoff = plan_and_weigh(*job, points=points)
    weighed_s = time.perf_counter() - began_s - free_s
    assert frontier == free
    tenth = max(one.clock_switches for one in free.points) // 10
    limited = plan_frontier(*job, points=points, limits=SwitchLimits(max_switches=tenth))
    return Measured(
        tradeoff=tradeoff,
        tradeoff_s=weighed_s - free_s,
        frontier_s=time.perf_counter() - began_s - free_s - weighed_s,
        frontier_gap=median(one.gap for one in limited.points),
    )


def _cells(point: TradeoffPoint, workload: Workload) -> tuple[str, ...]:
    values = point.saving, point.above_free, point.gap
    saving, above, gap = ("-" if value is None else f"{100 * value:.3f}" for value in values)
    energies = ("-" if value is None else f"{value:.1f}" for value in (point.energy_j, point.lower_bound_j))
    energy, bound = energies
    switches = "-" if point.clock_switches is None else str(point.clock_switches)
    return (
        f"{point.slowdown:g}",
        point.kind,
        switches,
        energy,
        saving,
        above,
        bound,
        gap,
        _asked(point, workload),
    )


def _asked(point: TradeoffPoint, workload: Workload) -> str:
    """A tenth of the changes on the A100 at the baseline's own time is the second limited row."""
    tenth = point.kind.startswith("at most 130 ") and workload.file.startswith("gpt3") and point.slowdown == 1
    if not tenth or point.above_free is None:
        return ""
    return _verdict(["energy above free"] if point.above_free > ASKED_ABOVE_FREE else [])


def _verdict(short: list[str]) -> str:
    return f"{SHORT}: {', '.join(short)}" if short else "ok"


BENCHMARK = Benchmark(
    name="switch_limits",
    shows="what fewer clock changes cost, with each plan's own bound",
    run=run,
    by_default=False,
)
