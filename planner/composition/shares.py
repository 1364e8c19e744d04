"""What the SM counts, launch points and clocks of partitions save, beside the clock of their operation."""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats
from energyopt.planner.composition.rows import Choices
from energyopt.schemas.partitions import Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Effective energy that an option saves, on one GPU.

    sm_j: by its SM counts and launch points, against overlapping with the SMs that the library chooses; 0 for one
        that does not overlap. clock_j: by partitions at clocks of their own, against all at the operation's.
    """

    sm_j: float
    clock_j: float = 0.0


def plain_place(one: Choices) -> int | None:
    """Where a partition's plain configuration stands; None where it was not measured."""
    return next((index for index, config in enumerate(one.configs) if config.is_plain), None)


def against_reference_j(one: Choices, scale: tuple[float, float], wait_power_w: float) -> Floats:
    """What each overlapped choice saves against overlapping as a library does by itself, [K].

    That is with its own choice of SMs where this was measured, else with the most that were; of its launch points
    the fastest.
    """
    effective_j = one.energy_j * scale[1] - wait_power_w * one.time_s * scale[0]
    overlapped = [k for k, config in enumerate(one.configs) if config.execution is Execution.OVERLAPPED]
    if not overlapped:
        return np.zeros(len(one.configs))
    reference = min(overlapped, key=lambda k: (-(one.configs[k].comm_sms or np.inf), one.time_s[k]))
    is_overlapped = np.isin(np.arange(len(one.configs)), overlapped)
    return np.where(is_overlapped, effective_j[reference] - effective_j, 0.0)
