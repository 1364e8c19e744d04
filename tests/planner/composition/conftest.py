"""Profiles of partition rows, small enough for brute force."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from energyopt.schemas.ops import OpKind
from energyopt.schemas.profile import EnergySource, Level, Profile, ProfileRow
from energyopt.schemas.profile_metadata import DeviceKind, ProfileMetadata

MakeRow = Callable[..., ProfileRow]
MakeProfile = Callable[..., Profile]


@pytest.fixture
def partition_row() -> MakeRow:
    """A partition row of the forward of stage 0 at 1000 MHz, with whatever is given instead."""

    def make(partition: str, time_s: float, energy_j: float, **given: object) -> ProfileRow:
        values: dict[str, object] = {
            "level": Level.PARTITION,
            "stage": 0,
            "chunk": 0,
            "op": OpKind.FORWARD,
            "partition": partition,
            "execution": "sequential",
            "sm_clock_mhz": 1000,
            "time_s": time_s,
            "energy_j": energy_j,
            "energy_source": EnergySource.MODEL,
        }
        return ProfileRow(**(values | given))  # type: ignore[arg-type]

    return make


@pytest.fixture
def op_row(partition_row: MakeRow) -> MakeRow:
    """A row of the whole forward of stage 0."""

    def make(time_s: float, energy_j: float, **given: object) -> ProfileRow:
        row = partition_row("", time_s, energy_j, **({"level": Level.OP} | given))
        return replace(row, partition=None)

    return make


@pytest.fixture
def profile_of_rows() -> MakeProfile:
    """A profile of rows, with a wait power of 10 W."""

    def make(*rows: ProfileRow, wait_power_w: float = 10.0) -> Profile:
        metadata = ProfileMetadata(
            device_name="test GPU", device_kind=DeviceKind.SIMULATED, wait_power_w=wait_power_w
        )
        return Profile(metadata=metadata, rows=rows)

    return make
