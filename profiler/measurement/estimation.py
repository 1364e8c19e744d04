"""From samples to power: which readings count, and how far off the result may be.

Between two edges of the counter's ticks its difference is exactly the energy used between them, so the mean power
of a window is known to about (how well the edges are timed) / (time between them), instead of a whole tick.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import stdev

from energyopt.profiler.measurement.samples import Samples
from energyopt.schemas.profile import EnergySource

FEWEST_EDGES = 3
HIGHEST_POWER = 1.5
"""A mean power above this multiple of the board's limit is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Mean power of a window, and the standard error that the reading itself puts on it."""

    power_w: float
    error_w: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a window is not used."""

    reason: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A moment at which the counter advanced to this value: it lies within +-gap_s/2 of time_s."""

    time_s: float
    energy_j: float
    gap_s: float


def edges_of(samples: Samples, tick_s: float = math.inf) -> list[Edge]:
    """The counter's advances, in order.

    Between two looks that lie several ticks apart the last advance is at most one tick old: the middle between the
    looks would date it too early.
    """
    edges = []
    for before, after in pairwise(samples.energy_j):
        if after[1] != before[1]:
            gap_s = min(after[0] - before[0], tick_s)
            edges.append(Edge(after[0] - gap_s / 2, after[1], gap_s))
    return edges


def mean_power(
    samples: Samples, source: EnergySource, power_limit_w: float | None, tick_s: float = math.inf
) -> Power | Rejected:
    """The mean power of a window, or why it cannot be known.

    Args:
        samples: what was seen.
        source: which readings to use.
        power_limit_w: the board's limit, None where it is not known.
        tick_s: time between two advances of the counter, where it is known.
    """
    found = _from_counter(samples, tick_s) if source is EnergySource.COUNTER else _from_power(samples)
    if isinstance(found, Rejected):
        return found
    if found.power_w <= 0:
        return Rejected(f"mean power of {found.power_w:.3g} W")
    if power_limit_w is not None and found.power_w > HIGHEST_POWER * power_limit_w:
        return Rejected(
            f"mean power of {found.power_w:.4g} W, more than {HIGHEST_POWER} x the limit of {power_limit_w:g} W"
        )
    return found


def _from_counter(samples: Samples, tick_s: float) -> Power | Rejected:
    if any(after[1] < before[1] for before, after in pairwise(samples.energy_j)):
        return Rejected("the energy counter went back: the driver restarted it")
    edges = edges_of(samples, tick_s)
    if len(edges) < FEWEST_EDGES:
        lost = f" ({_most_lost(samples)})" if samples.lost and not samples.energy_j else ""
        return Rejected(f"the energy counter advanced {len(edges)} times in the window{lost}")
    first, last = _best_pair(edges)
    span_s = last.time_s - first.time_s
    power_w = (last.energy_j - first.energy_j) / span_s
    return Power(
        power_w=power_w, error_w=power_w * math.hypot(first.gap_s, last.gap_s) / math.sqrt(12) / span_s
    )


def _best_pair(edges: list[Edge]) -> tuple[Edge, Edge]:
    """A well-timed edge near the start, and one near the end."""
    half = len(edges) // 2
    first = min(edges[:half], key=lambda edge: (edge.gap_s, edge.time_s))
    last = min(edges[half:], key=lambda edge: (edge.gap_s, -edge.time_s))
    return _earliest_like(edges[:half], first), _earliest_like(edges[half:][::-1], last)


def _earliest_like(edges: list[Edge], best: Edge) -> Edge:
    """The outermost edge that is timed nearly as well as the best one."""
    return next(edge for edge in edges if edge.gap_s <= 1.5 * best.gap_s)


def _from_power(samples: Samples) -> Power | Rejected:
    """The time-weighted mean of the readings; neighbours that are equal are one reading seen twice."""
    readings = samples.power_w
    if len(readings) < 2:
        lost = f" ({_most_lost(samples)})" if samples.lost else ""
        return Rejected(f"{len(readings)} power readings in the window{lost}")
    span_s = readings[-1][0] - readings[0][0]
    energy_j = integral_j(readings)
    distinct = [readings[0][1]] + [after[1] for before, after in pairwise(readings) if after[1] != before[1]]
    spread_w = stdev(distinct) if len(distinct) > 1 else 0.0
    return Power(power_w=energy_j / span_s, error_w=spread_w / math.sqrt(len(distinct)))


def integral_j(readings: list[tuple[float, float]]) -> float:
    """Energy under (time, power) readings, by the trapezoidal rule, J."""
    return math.fsum((end - start) * (left + right) / 2 for (start, left), (end, right) in pairwise(readings))


def _most_lost(samples: Samples) -> str:
    return max(samples.lost, key=lambda reason: samples.lost[reason])
