"""What it costs to change the clock between two partitions, and what does not go together with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from energyopt.schemas.errors import RequestError
from energyopt.schemas.profile_metadata import ProfileMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCost:
    """What a change of the clock between two partitions costs on one GPU, which does nothing meanwhile."""

    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """That an operation's partitions may run at different clocks.

    order: its partitions in execution order; None where nobody said. what: the operation in words.
    """

    cost: SwitchCost
    order: Sequence[str] | None
    what: str


def switch_cost(metadata: ProfileMetadata, time_s: float | None, energy_j: float | None) -> SwitchCost:
    """The cost of a change: the profile's clock switch latency, at wait power, where nothing else is said.

    Raises:
        RequestError: nobody knows the time, or a change would cost less than to wait.
    """
    time_s = metadata.clock_switch_latency_s if time_s is None else time_s
    if time_s is None:
        raise RequestError(
            "--mixed-clocks needs to know what a clock change takes, which the profile does not say; give "
            "--switch-time-s, or profile where clocks can be set"
        )
    if not (math.isfinite(time_s) and time_s >= 0):
        raise RequestError(f"--switch-time-s needs a finite time of at least 0 s, not {time_s:g}")
    waiting_j = metadata.wait_power_w * time_s
    energy_j = waiting_j if energy_j is None else energy_j
    if not (math.isfinite(energy_j) and energy_j >= waiting_j):
        raise RequestError(
            f"--switch-energy-j needs at least the {waiting_j:g} J that waiting for {time_s:g} s costs, not "
            f"{energy_j:g}"
        )
    return SwitchCost(time_s=time_s, energy_j=energy_j)


def refuse_uncounted(switch: SwitchCost | None, *, limited: bool) -> None:
    """Refuse a limited number of clock changes where operations have changes inside them, which nobody counts.

    Raises:
        RequestError: there are both.
    """
    if switch is not None and limited:
        raise RequestError(
            "--mixed-clocks changes clocks inside operations, which --max-switches and --switch-tradeoff do not "
            "count; leave one of them out"
        )
