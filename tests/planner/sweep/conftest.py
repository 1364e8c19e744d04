"""Profiles of one transformer in any layout, all from the same windows, as measuring each would give them."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from energyopt.profiler.measurement.compose import rows_of
from energyopt.profiler.measurement.row_maker import Windows
from energyopt.profiler.measurement.window import Window
from energyopt.profiler.workloads.composites import with_composites
from energyopt.profiler.workloads.interface import Kernel, Workload
from energyopt.profiler.workloads.job import job_shape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload
from energyopt.schemas.ops import OpKey
from energyopt.schemas.profile import EnergySource, Profile
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata

MODEL = "llama-3.2-3b"  # 28 layers
CLOCKS = (1000, 1200, 1400)
ROUNDS = 3


def _windows(kernel: Kernel, clock: int) -> list[Window]:
    """Costs that follow from the kernel's name alone, whatever layout it is in, and 0.2 % of noise."""
    chance = random.Random(f"{kernel.name} {clock}")
    size = random.Random(kernel.name).uniform(0.5e-3, 2e-3)
    time_s = size * (0.3 + 0.7 * 1400 / clock)
    power_w = 90 + 250 * (clock / 1400) ** 3
    found = []
    for number in range(ROUNDS):
        one_s, one_w = time_s * chance.gauss(1, 0.002), power_w * chance.gauss(1, 0.002)
        found.append(
            Window(
                kernel=kernel.name,
                sm_clock_mhz=clock,
                round=number,
                time_s=one_s,
                energy_j=one_s * one_w,
                energy_error_j=0.0,
                repeats=10,
                achieved_sm_clock_mhz=clock,
            )
        )
    return found


def _order(workload: Workload) -> dict[OpKey, tuple[str, ...]]:
    return {
        OpKey(op.stage, op.chunk, op.kind): tuple(
            dict.fromkeys(use.partition.name for use in (*op.partitions, *op.split))
        )
        for op in workload.ops
    }


@pytest.fixture(scope="session")
def measured() -> Callable[..., Profile]:
    """The profile of a layout; `overlap` with partitions in every configuration, other settings as of a job."""

    def measure(*, overlap: bool = False, **settings: Any) -> Profile:
        workload = transformer_workload(PRESETS[MODEL], job_shape(settings))
        workload = with_composites(workload) if overlap else workload
        windows: Windows = {
            (kernel.name, clock): _windows(kernel, clock) for kernel in workload.kernels() for clock in CLOCKS
        }
        metadata = ProfileMetadata(
            device_name="test",
            device_kind=DeviceKind.SIMULATED,
            wait_power_w=80.0,
            gpus_per_stage=workload.gpus_per_stage,
            workload=dict(workload.settings),
            partition_order=_order(workload),
        )
        rows = rows_of(workload, windows, CLOCKS, EnergySource.COUNTER, None)
        return Profile(metadata=metadata, rows=tuple(rows))

    return measure
