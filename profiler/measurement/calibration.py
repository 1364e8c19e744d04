"""The first seconds of a run: how the board's energy reading behaves, and whether it can be believed."""

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, stdev

from energyopt.applier.devices.interface import Device, PowerMeaning
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.measurement.estimation import Edge, Power, Rejected, edges_of, mean_power
from energyopt.profiler.measurement.samples import Recorder, Samples
from energyopt.profiler.measurement.settings import SourceChoice
from energyopt.profiler.measurement.warming import run_time_s
from energyopt.profiler.workloads.interface import Kernel
from energyopt.schemas.errors import MeasurementError
from energyopt.schemas.profile import EnergySource

PILOT_S = 3.0
LONGEST_PILOT_S = 12.0
FEWEST_TICKS = 8
FINE_S = 1e-3
USUAL_TICK_S = 0.1
AGREEMENT = 0.1
"""Counter and integrated power that differ by more than this share are warned about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the pilot run found out.

    tick_s: time between two advances of the chosen reading.
    averaging_s: how far back the chosen reading looks; a counter does not.
    counter_over_power: energy by the counter over that by integrated power; None where one of them is missing.
    power_noise: relative standard deviation of the mean power of stretches of `noise_span_s`.
    sm_clock_mhz: the clock that the board ran at under load; None where it cannot be read.
    """

    source: EnergySource
    tick_s: float
    averaging_s: float
    power_w: float
    counter_over_power: float | None
    power_noise: float
    noise_span_s: float
    sm_clock_mhz: int | None

    @property
    def warning(self) -> str | None:
        """What the user should know about this board's readings."""
        ratio = self.counter_over_power
        if ratio is None or abs(ratio - 1) <= AGREEMENT:
            return None
        return (
            f"the energy counter gives {ratio:.2f} times the integrated power; the whole profile uses the "
            f"{self.source}, and so must whatever is compared with it"
        )


def heaviest(kernels: tuple[Kernel, ...]) -> Kernel:
    """The kernel that loads a board most: the one with the most work on the matrix units."""
    alone = [kernel for kernel in kernels if kernel.communication is None] or list(kernels)
    return max(alone, key=lambda kernel: (kernel.matrix, kernel.flops, kernel.memory_bytes, kernel.name))


def calibrate(bench: Bench, kernel: Kernel, choice: SourceChoice) -> Calibration:
    """Run a prepared kernel for some seconds and look at the board as often as it pays.

    Raises:
        MeasurementError: no reading of energy or power moves; says what the board answered.
    """
    averaging_s = 1.0 if bench.device.identity.power_meaning is PowerMeaning.AVERAGE_1S else 0.0
    run_s = run_time_s(bench, kernel)
    bench.run(kernel, max(1, math.ceil((0.5 + 1.2 * averaging_s) / run_s)))
    samples = _pilot(bench, kernel, run_s, PILOT_S)
    if len(edges_of(samples)) < FEWEST_TICKS:
        samples = _pilot(bench, kernel, run_s, LONGEST_PILOT_S)
    return _calibration(bench.device, samples, choice, averaging_s)


def _pilot(bench: Bench, kernel: Kernel, run_s: float, pilot_s: float) -> Samples:
    recorder = Recorder(
        bench.device, fine_s=FINE_S, coarse_s=FINE_S, fine_from_s=float("-inf"), always_fine=True
    )
    bench.run(kernel, max(1, math.ceil(pilot_s / run_s)), recorder)
    return recorder.samples


def _calibration(device: Device, samples: Samples, choice: SourceChoice, averaging_s: float) -> Calibration:
    limit_w = device.identity.power_limit_w
    counter = mean_power(samples, EnergySource.COUNTER, limit_w)
    power = mean_power(samples, EnergySource.POWER_INTEGRAL, limit_w)
    source = _choose(choice, counter, power)
    chosen = counter if source is EnergySource.COUNTER else power
    if isinstance(chosen, Rejected):  # _choose has refused this
        raise MeasurementError(chosen.reason)
    edges = edges_of(samples) if source is EnergySource.COUNTER else _power_edges(samples)
    noise, span_s = _noise(edges, chosen)
    both = not isinstance(counter, Rejected) and not isinstance(power, Rejected)
    return Calibration(
        source=source,
        tick_s=_tick_s(edges),
        averaging_s=0.0 if source is EnergySource.COUNTER else averaging_s,
        power_w=chosen.power_w,
        counter_over_power=counter.power_w / power.power_w if both else None,  # type: ignore[union-attr]
        power_noise=noise,
        noise_span_s=span_s,
        sm_clock_mhz=round(median(samples.sm_clock_mhz)) if samples.sm_clock_mhz else None,
    )


def _choose(choice: SourceChoice, counter: Power | Rejected, power: Power | Rejected) -> EnergySource:
    """One source for the whole profile: the counter where it works, unless the user chose."""
    if choice is not SourceChoice.POWER and not isinstance(counter, Rejected):
        return EnergySource.COUNTER
    if choice is not SourceChoice.COUNTER and not isinstance(power, Rejected):
        return EnergySource.POWER_INTEGRAL
    said = [
        f"{name}: {one.reason}"
        for name, one in (("counter", counter), ("power", power))
        if isinstance(one, Rejected)
    ]
    raise MeasurementError(
        f"this board gives no energy that can be believed ({'; '.join(said)}); "
        "`energyopt doctor` says what it has and what can be done"
    )


def _power_edges(samples: Samples) -> list[Edge]:
    """The moments at which the power reading changed, with the energy integrated up to them."""
    edges, energy_j = [], 0.0
    for before, after in pairwise(samples.power_w):
        energy_j += (after[0] - before[0]) * (after[1] + before[1]) / 2
        if after[1] != before[1]:
            edges.append(Edge(after[0], energy_j, after[0] - before[0]))
    return edges


def _tick_s(edges: list[Edge]) -> float:
    """The usual time between two advances; a reading that moves at every look has the looks' own.

    A power reading that never changed says nothing of its ticks.
    """
    if len(edges) < 2:
        return USUAL_TICK_S
    return median(after.time_s - before.time_s for before, after in pairwise(edges))


def _noise(edges: list[Edge], power: Power) -> tuple[float, float]:
    """Spread of the mean power over stretches of five ticks, relative, and how long such a stretch is, s."""
    marks = edges[::5]
    if len(marks) < 4:
        return power.error_w / power.power_w, PILOT_S
    spans = [after.time_s - before.time_s for before, after in pairwise(marks)]
    powers = [
        (after.energy_j - before.energy_j) / span
        for (before, after), span in zip(pairwise(marks), spans, strict=True)
    ]
    return stdev(powers) / fmean(powers), fmean(spans)
