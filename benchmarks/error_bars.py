"""Whether error bars are honest: how often the simulated GPU's true value lies in the stated 95 % interval."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.registry import SHORT, Benchmark
from benchmarks.registry import Settings as Chosen
from energyopt.planner.tables import Table
from energyopt.profiler.benches.simulated import SimulatedBench, open_simulated_bench
from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.profile import profile_of
from energyopt.profiler.measurement.run import measure
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.schemas.intervals import half_width
from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import ProfileRow

REPETITIONS = 200
LEAST, MOST = 0.90, 0.99
COLUMNS = ("GPU", "windows", "ticks each", "rows", "time inside", "energy inside", "energy +-", "verdict")
PRODUCT = Kernel(name="product", flops=2 * 16384 * 3072 * 3072, memory_bytes=2 * 3072 * 35840, matrix=True)
COPY = Kernel(name="copy", flops=16384 * 3072, memory_bytes=4 * 16384 * 3072)
COUNTS = {PRODUCT: 1, COPY: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to measure; None takes the default length of a window."""

    gpu: str
    clocks_mhz: tuple[int, ...]
    windows: int
    window_s: float | None


CASES = (
    Case(gpu="a100-sxm4-80gb", clocks_mhz=(1410, 1005), windows=5, window_s=None),
    Case(gpu="a100-sxm4-80gb", clocks_mhz=(1410, 1005), windows=5, window_s=0.5),
    Case(gpu="a100-sxm4-80gb", clocks_mhz=(1410, 1005), windows=2, window_s=0.5),
    Case(gpu="a100-sxm4-80gb", clocks_mhz=(1410, 1005), windows=3, window_s=3.0),
    Case(gpu="a40", clocks_mhz=(1605, 1005), windows=5, window_s=None),
    Case(gpu="h100-sxm5-80gb", clocks_mhz=(1980, 1200), windows=5, window_s=None),
)


def run(settings: Chosen) -> Table:
    cases, repetitions = (CASES[:1], 3) if settings.smoke else (CASES, settings.runs or REPETITIONS)
    rows = tuple(_row(case, repetitions) for case in cases)
    title = f"share of {repetitions} simulated repetitions whose true value lies in the 95 % interval"
    return Table(title=title, columns=COLUMNS, rows=rows)


def _row(case: Case, repetitions: int) -> tuple[str, ...]:
    found = [one for seed in range(repetitions) for one in _repetition(case, seed)]
    time, energy = (fmean(inside[index] for inside, _ in found) for index in (0, 1))
    honest = all(LEAST <= one <= MOST for one in (time, energy))
    ticks = 10 if case.window_s is None else round(case.window_s / 0.1)
    return (
        case.gpu,
        str(case.windows),
        str(ticks),
        str(len(found)),
        f"{time:.1%}",
        f"{energy:.1%}",
        f"{fmean(width for _, width in found):.2%}",
        "ok" if honest else SHORT,
    )


def _repetition(case: Case, seed: int) -> Iterator[tuple[tuple[bool, bool], float]]:
    """For each kernel and op at each clock: whether the truth lies inside, and the energy's half width."""
    with tempfile.TemporaryDirectory() as folder, closing(open_simulated_bench(case.gpu, seed=seed)) as bench:
        job = _job(case, bench)
        with Partial(Path(folder) / "partial", "digest", "repetition") as partial:
            rows = profile_of(job, measure(job, partial)).rows
        for row in rows:
            if row.level != "partition":
                yield _inside(row, bench)


def _job(case: Case, bench: SimulatedBench) -> Job:
    uses = tuple(KernelUse(kernel=kernel, count=count) for kernel, count in COUNTS.items())
    partition = PartitionUse(partition=Partition(name="all", kernels=uses))
    op = WorkloadOp(stage=0, chunk=0, kind=OpKind.FORWARD, partitions=(partition,))
    settings = Settings(
        clocks_mhz=case.clocks_mhz, windows=case.windows, window_s=case.window_s, early_stop=False
    )
    return Job(
        bench=bench,
        workload=Workload(name="two kernels", ops=(op,), stages=1),
        settings=settings,
        progress=lambda _step, _share: None,
        say=lambda _text: None,
        warn=lambda _text: None,
    )


def _inside(row: ProfileRow, bench: SimulatedBench) -> tuple[tuple[bool, bool], float]:
    parts = {one: count for one, count in COUNTS.items() if row.kernel in {None, one.name}}
    temperature_c = ((row.temperature_start_c or 0.0) + (row.temperature_end_c or 0.0)) / 2
    weights = {one: count if row.kernel is None else 1 for one, count in parts.items()}
    true = [bench.true_cost(one, row.sm_clock_mhz, temperature_c) for one in weights]
    time_s, energy_j = (
        sum(weight * cost[index] for weight, cost in zip(weights.values(), true, strict=True))
        for index in (0, 1)
    )
    time_half = half_width(row.time_std_s, row.samples) or 0.0
    energy_half = half_width(row.energy_std_j, row.samples) or 0.0
    inside = (abs(row.time_s - time_s) <= time_half, abs(row.energy_j - energy_j) <= energy_half)
    return inside, energy_half / energy_j


BENCHMARK = Benchmark(
    name="error_bars", shows="the true value lies in the 95 % interval in 90 to 99 % of cases", run=run
)
