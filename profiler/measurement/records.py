"""What a run found out, from the record that it was kept in."""

from typing import Any

from energyopt.profiler.measurement.budget import SweepPlan
from energyopt.profiler.measurement.calibration import Calibration
from energyopt.profiler.measurement.latency import SwitchLatency
from energyopt.profiler.measurement.resting import Resting
from energyopt.profiler.measurement.settings import Timing
from energyopt.profiler.measurement.statistics import Estimate
from energyopt.schemas.profile import EnergySource


def read_calibration(value: dict[str, Any]) -> Calibration:
    """The calibration of an earlier run."""
    return Calibration(**(value | {"source": EnergySource(value["source"])}))


def read_resting(value: dict[str, Any]) -> Resting:
    """Idle and wait power of an earlier run."""
    return Resting(**{name: Estimate(**power) for name, power in value.items()})


def read_plan(value: dict[str, Any]) -> SweepPlan:
    """The plan that an earlier run began."""
    clocks = tuple(value["clocks_mhz"])
    return SweepPlan(**(value | {"clocks_mhz": clocks, "timing": Timing(**value["timing"])}))


def read_latency(value: dict[str, Any]) -> SwitchLatency:
    """The switch latency of an earlier run."""
    return SwitchLatency(**value)
