"""The profiles that benchmarks plan for: the two real ones, and a made-up one for smoke runs."""

import csv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.registry import Settings, UnavailableError
from energyopt.planner.schedules.registry import build_schedule
from energyopt.profiler.importers.lowtime import read_lowtime_csv
from energyopt.schemas.ops import OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A profile and the job that it is planned for, but for the microbatches."""

    name: str
    file: str
    device: str
    wait_power_w: float
    profile: Profile
    stages: int = 8

    def pipeline(self, microbatches: int) -> Pipeline:
        """The 1F1B pipeline of one iteration."""
        return Pipeline(stages=self.stages, microbatches=microbatches)

    def schedule(self, microbatches: int) -> Schedule:
        """Its schedule."""
        return build_schedule(self.pipeline(microbatches))


_REAL = (
    ("GPT-3 175B, A100", "gpt3-175b.a100-sxm-80gb", "NVIDIA A100-SXM4-80GB", 83.64),
    ("Bloom 176B, A40", "bloom-176b.a40-48gb", "NVIDIA A40", 70.38),
)


def workloads(settings: Settings) -> list[Workload]:
    """The real profiles; in a smoke run the tiny one."""
    return [tiny()] if settings.smoke else [_real(settings.data, *one) for one in _REAL]


def published(settings: Settings, workload: Workload, microbatches: int) -> list[tuple[float, float]]:
    """The (time_s, energy_j) frontier that Perseus published for a real job; empty where there is none."""
    path = settings.data / "published-frontiers" / f"{workload.file}.mb{microbatches}.csv"
    if settings.smoke or not path.exists():
        return []
    with path.open(newline="") as lines:
        return [(float(row["time"]), float(row["energy"])) for row in csv.DictReader(lines)]


def tiny() -> Workload:
    """Two stages, five clocks; the work at a clock takes and draws what a textbook GPU would."""
    rows = tuple(
        _row(stage, kind, clock, size * (1 + 0.1 * stage))
        for stage in range(2)
        for kind, size in ((OpKind.FORWARD, 0.1), (OpKind.BACKWARD, 0.2))
        for clock in (600, 800, 1000, 1200, 1400)
    )
    metadata = ProfileMetadata(device_name="made up", device_kind=DeviceKind.SIMULATED, wait_power_w=60.0)
    profile = Profile(metadata=metadata, rows=rows)
    return Workload(
        name="made up", file="tiny", device="made up", wait_power_w=60.0, profile=profile, stages=2
    )


def _row(stage: int, kind: OpKind, clock: int, size_s: float) -> ProfileRow:
    time_s = size_s * (0.3 + 0.7 * 1400 / clock)
    return ProfileRow(
        level=Level.OP,
        stage=stage,
        chunk=0,
        op=kind,
        sm_clock_mhz=clock,
        time_s=time_s,
        energy_j=time_s * (90 + 250 * (clock / 1400) ** 3),
        energy_source=EnergySource.MODEL,
    )


def _real(data: Path, name: str, file: str, device: str, wait_power_w: float) -> Workload:
    path = data / "stage-profiles" / f"{file}.csv"
    if not path.exists():
        raise UnavailableError(f"no {path.name} in {path.parent}; say with --data where the real data is")
    profile = read_lowtime_csv(path, device_name=device, wait_power_w=wait_power_w).profile
    return Workload(name=name, file=file, device=device, wait_power_w=wait_power_w, profile=profile)
