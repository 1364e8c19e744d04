"""The benchmarks by name: what each shows, and the function that makes its table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from energyopt.planner.tables import Table

SHORT = "short"  # starts a verdict that misses what is asked


class UnavailableError(Exception):
    """A benchmark cannot run here; the text is one line that says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line chose; `microbatches`, `runs` and `time_limit_s` are None for a benchmark's own choice.

    smoke: run once, untimed in spirit, on the tiny profile of `workloads.tiny`, without the network.
    """

    root: Path
    data: Path
    smoke: bool = False
    microbatches: tuple[int, ...] | None = None
    runs: int | None = None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One entry; `by_default` is false for long ones that run only when named."""

    name: str
    shows: str
    run: Callable[[Settings], Table]
    by_default: bool = True


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks, in the order in which they run."""
    from benchmarks import (
        against_lowtime,
        composition,
        error_bars,
        exact,
        hook_cost,
        measured_runs,
        measured_savings,
        partitions,
        profile_sweep,
        real_profiles,
        scale,
        scale_limits,
        scale_others,
        schedules,
        search,
        startup,
        sweep,
        switch_limits,
    )

    modules = (
        startup,
        hook_cost,
        profile_sweep,
        error_bars,
        schedules,
        composition,
        partitions,
        real_profiles,
        measured_runs,
        measured_savings,
        switch_limits,
        scale,
        scale_limits,
        scale_others,
        sweep,
        search,
        against_lowtime,
        exact,
    )
    return {module.BENCHMARK.name: module.BENCHMARK for module in modules}


def is_short(table: Table) -> bool:
    """Whether a row misses what is asked."""
    return any(cell.startswith(SHORT) for row in table.rows for cell in row)
