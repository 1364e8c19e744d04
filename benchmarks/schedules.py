"""Building schedules and their dependencies takes time linear in the operations."""

import time

from benchmarks.registry import Benchmark, Settings
from energyopt.planner.graph import build_graph
from energyopt.planner.schedules.registry import SCHEDULES, build_schedule
from energyopt.planner.tables import Table
from energyopt.schemas.pipeline import Pipeline

SIZES = (4096, 32768, 262144)
STAGES = 32


def run(settings: Settings) -> Table:
    sizes, stages = ((64,), 4) if settings.smoke else (SIZES, STAGES)
    rows = []
    for name in SCHEDULES:
        per_op_us: float | None = None
        for size in sizes:
            n_ops, schedule_s, graph_s = _build(name, stages, size)
            earlier_us, per_op_us = per_op_us, (schedule_s + graph_s) / n_ops * 1e6
            growth = "" if earlier_us is None else f"{per_op_us / earlier_us:.2f}"
            cells = (f"{n_ops}", f"{schedule_s:.3f}", f"{graph_s:.3f}", f"{per_op_us:.2f}", growth)
            rows.append((name, *cells))
    columns = ("schedule", "ops", "schedule s", "graph s", "us per op", "ratio to the line above")
    return Table(title=f"{stages} stages, single runs", columns=columns, rows=tuple(rows))


def _build(name: str, stages: int, size: int) -> tuple[int, float, float]:
    """Operations, and the seconds that the schedule and its dependencies take."""
    chunks = 2 if name == "interleaved-1f1b" else 1
    kinds = 3 if name == "zb-h1" else 2
    microbatches = -(-size // (stages * chunks * kinds * stages)) * stages
    pipeline = Pipeline(stages=stages, microbatches=microbatches, schedule=name, chunks_per_stage=chunks)
    began_s = time.perf_counter()
    schedule = build_schedule(pipeline)
    built_s = time.perf_counter()
    graph = build_graph(schedule)
    return graph.n_ops, built_s - began_s, time.perf_counter() - built_s


BENCHMARK = Benchmark(
    name="schedules", shows="schedules and dependencies are built in time linear in the operations", run=run
)
