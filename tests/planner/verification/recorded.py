"""Telemetry whose truth is known by formula: a made-up job, run on paper with chosen times, powers and noise.

An operation of size s takes s (0.3 + 0.7 x 1400 / clock) seconds at 90 + 250 (clock / 1400)^3 W; stage k's sizes
are 1 + k / 10 times those of stage 0. Loaded by path in the conftests of the folders that use it.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from energyopt.planner.schedules.registry import build_schedule
from energyopt.planner.simulation import simulate
from energyopt.planner.verification.prediction import stages_of
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.ops import OpKey, OpKind, Schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Baseline, Plan, Prediction, write_plan
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata
from energyopt.schemas.telemetry import ARROW_SCHEMA, ITERATION, OP, Gpu, Mode, Telemetry, TelemetryMetadata

CLOCKS = (900, 1000, 1100, 1200, 1300, 1400)
SIZES = {
    OpKind.FORWARD: 0.1,
    OpKind.BACKWARD: 0.2,
    OpKind.BACKWARD_INPUT: 0.12,
    OpKind.BACKWARD_WEIGHT: 0.08,
}


def op_time_s(key: OpKey, clock: int) -> float:
    return SIZES[key.kind] * (1 + key.stage / 10) * (0.3 + 0.7 * 1400 / clock)


def op_power_w(clock: int) -> float:
    return 90 + 250 * (clock / 1400) ** 3


@dataclass(kw_only=True)
class Job:
    """A job and the truth about it: `wait_w`, `fixed_s`, `p2p_s`, and factors on the times and powers above."""

    stages: int = 2
    microbatches: int = 4
    schedule_name: str = "1f1b"
    chunks: int = 1
    wait_w: float = 70.0
    fixed_s: float = 0.05
    p2p_s: float = 0.0
    time_factor: Callable[[OpKey], float] = lambda _: 1.0
    power_factor: Callable[[OpKey], float] = lambda _: 1.0
    pipeline: Pipeline = field(init=False)
    schedule: Schedule = field(init=False)

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(
            stages=self.stages,
            microbatches=self.microbatches,
            schedule=self.schedule_name,
            chunks_per_stage=self.chunks,
        )
        self.schedule = build_schedule(self.pipeline)

    def clocks(self, seed: int) -> list[int]:
        """One clock for each (stage, chunk, kind), at random."""
        random = np.random.default_rng(seed)
        of = {key: int(random.choice(CLOCKS)) for key in sorted({op.key for op in self.schedule.ops})}
        return [of[op.key] for op in self.schedule.ops]

    def times_s(self, clocks: Sequence[int]) -> list[float]:
        return [
            op_time_s(op.key, clock) * self.time_factor(op.key)
            for op, clock in zip(self.schedule.ops, clocks, strict=True)
        ]

    def cost(self, clocks: Sequence[int]) -> tuple[float, list[float]]:
        """The iteration's time, and the energy of each stage's GPU."""
        times = self.times_s(clocks)
        total_s = simulate(self.schedule, times, self.p2p_s, self.fixed_s).iteration_time_s
        energy = [self.wait_w * total_s] * self.stages
        for op, clock, time_s in zip(self.schedule.ops, clocks, times, strict=True):
            energy[op.stage] += time_s * (op_power_w(clock) * self.power_factor(op.key) - self.wait_w)
        return total_s, energy

    def profile(self, **metadata: Any) -> Profile:
        """The formula's rows, without this job's factors, P2P and fixed time."""
        keys = sorted({op.key for op in self.schedule.ops})
        rows = tuple(
            ProfileRow(
                level=Level.OP,
                stage=key.stage,
                chunk=key.chunk,
                op=key.kind,
                sm_clock_mhz=clock,
                time_s=op_time_s(key, clock),
                energy_j=op_time_s(key, clock) * op_power_w(clock),
                energy_source=EnergySource.MODEL,
            )
            for key in keys
            for clock in CLOCKS
        )
        about = {"device_name": "toy", "device_kind": DeviceKind.SIMULATED, "wait_power_w": self.wait_w}
        return Profile(metadata=ProfileMetadata(**(about | metadata)), rows=rows)

    def plan(self, clocks: Sequence[int], **changes: Any) -> Plan:
        """A plan of these clocks that predicts its true cost."""
        total_s, energy = self.cost(clocks)
        top_s, top = self.cost([CLOCKS[-1]] * len(self.schedule.ops))
        settings: dict[str, Any] = {
            "profile_sha256": None,
            "device_name": "toy",
            "device_kind": "simulated",
            "pipeline": self.pipeline,
            "gpus": self.stages,
            "predicted": Prediction(iteration_time_s=total_s, energy_j=sum(energy)),
            "max_clock": Baseline(iteration_time_s=top_s, energy_j=sum(top)),
            "best_single_clock": None,
            "stages": stages_of(self.schedule, clocks),
        }
        return Plan(**(settings | changes))

    def record(
        self,
        clocks: Sequence[int],
        *,
        iterations: int = 20,
        noise: float = 0.0,
        op_noise: float = 0.0,
        seed: int = 0,
        plan_sha256: str | None = None,
        alternative: int | None = 0,
        ranks_per_stage: int = 1,
        first: int = 0,
    ) -> Telemetry:
        """A run of these clocks; `noise` is relative, from iteration to iteration, of times and energies."""
        random = np.random.default_rng(seed)
        total_s, energy = self.cost(clocks)
        times = self.times_s(clocks)
        rows: list[dict[str, Any]] = []
        for number in range(first, first + iterations):
            shared = {"iteration": number, "alternative": alternative}
            took_s = total_s * (1 + noise * random.standard_normal())
            for rank in range(self.stages * ranks_per_stage):
                stage = rank // ranks_per_stage
                drawn = energy[stage] * (1 + noise * random.standard_normal())
                rows.append(
                    shared
                    | {"level": ITERATION, "rank": rank, "stage": stage, "time_s": took_s, "energy_j": drawn}
                )
                rows += [
                    shared
                    | {
                        "level": OP,
                        "rank": rank,
                        "stage": stage,
                        "op": str(op.kind),
                        "chunk": op.chunk,
                        "microbatch": op.microbatch,
                        "sm_clock_mhz": None if alternative is None else clock,
                        "achieved_sm_clock_mhz": clock,
                        "time_s": time_s * (1 + op_noise * random.standard_normal()),
                        "throttle": 0,
                    }
                    for op, clock, time_s in zip(self.schedule.ops, clocks, times, strict=True)
                    if op.stage == stage
                ]
        mode = Mode.OBSERVE if alternative is None else Mode.APPLY
        return self.telemetry(rows, mode=mode, plan_sha256=plan_sha256, ranks_per_stage=ranks_per_stage)

    def telemetry(
        self, rows: list[dict[str, Any]], *, ranks_per_stage: int = 1, mode: Mode = Mode.APPLY, **changes: Any
    ) -> Telemetry:
        columns = {name: [row.get(name) for row in rows] for name in ARROW_SCHEMA.names}
        ranks = range(self.stages * ranks_per_stage)
        gpus = tuple(
            Gpu(rank=rank, stage=rank // ranks_per_stage, mode=mode, name="toy", uuid=f"GPU-{rank}")
            for rank in ranks
        )
        settings: dict[str, Any] = {
            "plan_sha256": None,
            "profile_sha256": None,
            "pipeline": replace(self.pipeline, data_parallel=ranks_per_stage),
            "world_size": len(ranks),
            "gpus": gpus,
            "timer": "cuda_events",
        }
        return Telemetry(
            metadata=TelemetryMetadata(**(settings | changes)), table=arrow_table(columns, ARROW_SCHEMA)
        )


def write(plan: Plan, folder: Path) -> tuple[Path, str]:
    """The plan's file and its digest."""
    path = folder / "plan.json"
    write_plan(path, plan)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()
