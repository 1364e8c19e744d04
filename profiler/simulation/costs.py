"""What a load costs at every supported clock, and at which of them the board lets it run."""

from collections.abc import Sequence
from dataclasses import dataclass

from energyopt.profiler.simulation.overlap import overlap_costs
from energyopt.profiler.simulation.power import activity_w, kernel_w, leakage_w
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.simulation.timing import kernel_time_s
from energyopt.profiler.workloads.interface import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Time, power and leakage by index of clock, lowest first; power rises with the clock.

    runs_per_s: how many runs of the kernel finish in a second; 0 for idling and waiting, which finish nothing.
    power_w: without leakage.
    leakage_w: at the reference temperature.
    """

    sm_clock_mhz: Sequence[int]
    runs_per_s: Sequence[float]
    power_w: Sequence[float]
    leakage_w: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How the board runs a load: the mean of the two steps between which it changes where power limits it.

    capped: the limit keeps it below the clock asked for.
    """

    sm_clock_mhz: float
    runs_per_s: float
    power_w: float
    capped: bool


def kernel_costs(spec: GpuSpec, kernel: Kernel) -> Costs:
    """Costs of running a kernel, or a whole partition as one, back to back.

    Raises:
        WorkloadError: the GPU cannot run it.
    """
    clocks = spec.clocks.supported_mhz()
    if kernel.overlap is not None:
        found = overlap_costs(spec, kernel.overlap)
        return Costs(
            sm_clock_mhz=clocks,
            runs_per_s=(1 / found.time_s).tolist(),
            power_w=found.power_w.tolist(),
            leakage_w=[leakage_w(spec, clock) for clock in clocks],
        )
    times = [kernel_time_s(spec, kernel, clock) for clock in clocks]
    return Costs(
        sm_clock_mhz=clocks,
        runs_per_s=[1 / time_s for time_s in times],
        power_w=[kernel_w(spec, kernel, clock, time_s) for clock, time_s in zip(clocks, times, strict=True)],
        leakage_w=[leakage_w(spec, clock) for clock in clocks],
    )


def standing_costs(spec: GpuSpec, share: float) -> Costs:
    """Costs of doing nothing with this share of the SMs' activity: idling, or waiting for a peer."""
    clocks = spec.clocks.supported_mhz()
    return Costs(
        sm_clock_mhz=clocks,
        runs_per_s=[0.0] * len(clocks),
        power_w=[activity_w(spec, clock, share) for clock in clocks],
        leakage_w=[leakage_w(spec, clock) for clock in clocks],
    )


def operate(costs: Costs, asked: int, limit_w: float, warmth: float) -> Operation:
    """How a load runs when the clock with index `asked` is set, under a limit on power.

    warmth: factor on leakage, from `thermal.leakage_factor`.

    The board changes between the two neighbouring steps whose powers lie on either side of the limit, so that the
    mean power is the limit. At the lowest clock nothing can be saved any more, whatever the limit.
    """
    power, leakage = costs.power_w, costs.leakage_w
    asked_w = power[asked] + leakage[asked] * warmth
    if asked_w <= limit_w or asked == 0:
        return Operation(
            sm_clock_mhz=costs.sm_clock_mhz[asked],
            runs_per_s=costs.runs_per_s[asked],
            power_w=asked_w,
            capped=asked_w > limit_w,
        )
    low, high = 0, asked  # the clock at `high` draws too much
    while high - low > 1:
        middle = (low + high) // 2
        if power[middle] + leakage[middle] * warmth <= limit_w:
            low = middle
        else:
            high = middle
    return _between(costs, low, limit_w, warmth)


def _between(costs: Costs, low: int, limit_w: float, warmth: float) -> Operation:
    low_w = costs.power_w[low] + costs.leakage_w[low] * warmth
    high_w = costs.power_w[low + 1] + costs.leakage_w[low + 1] * warmth
    share = max(0.0, (limit_w - low_w) / (high_w - low_w))

    def mean(of: Sequence[float]) -> float:
        return of[low] + share * (of[low + 1] - of[low])

    return Operation(
        sm_clock_mhz=mean(costs.sm_clock_mhz),
        runs_per_s=mean(costs.runs_per_s),
        power_w=low_w + share * (high_w - low_w),
        capped=True,
    )
