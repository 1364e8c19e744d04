"""What a run measures and what comes out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.latency import SwitchLatency
from energyopt.profiler.measurement.resting import Resting
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.measurement.sweep import Progress
from energyopt.profiler.measurement.team import Solo, Team
from energyopt.profiler.measurement.window import Window
from energyopt.profiler.search.outcome import Outcome
from energyopt.profiler.workloads.interface import Kernel, Workload

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure, where, and with whom.

    able: whether this rank's board can be measured; one that cannot still takes part in collectives.
    allow_partial: whether ranks go on without those whose boards cannot be clocked or measured.
    kernels_on: `cuda`, `cpu` or `simulation`: what really runs the kernels.
    check_first: looks at the board under load before anything is set, and may refuse.
    say, warn: receive what the user should read while the run goes on.
    """

    bench: Bench
    workload: Workload
    settings: Settings
    progress: Progress
    say: Say
    warn: Say
    team: Team = field(default_factory=Solo)
    peers: Team = field(default_factory=Solo)
    able: bool = True
    allow_partial: bool = False
    kernels_on: str = "simulation"
    check_first: Callable[[Bench, Kernel], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one rank found; None and empty where it could not measure.

    search: how the search for configurations went, where there was one.
    """

    calibration: Calibration
    resting: Resting
    latency: SwitchLatency | None
    plan: SweepPlan
    clocks_mhz: tuple[int, ...]
    stopped_at_mhz: int | None
    windows: Mapping[tuple[str, int], list[Window]]
    search: Outcome | None = None
