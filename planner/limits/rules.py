"""What a user may ask of clock changes, and whether any plan can grant it."""

import math
from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.viterbi import cheapest_sequences
from energyopt.schemas.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLimits:
    """Limits on a plan's clock changes.

    max_switches: changes between consecutive operations of a stage in one iteration, summed over all stages; None
        for any number. This is the count that a frontier's `clock_switches` gives.
    min_dwell_s: least time from the start of the first operation at a clock to that of the first at the next clock.
        Iterations follow each other: where a stage's last clock is also its first, the two spans are one, else the
        last ends where the next iteration's first operation starts. A stage that never changes has no span.

    Raises:
        RequestError: a negative number, or no finite time.
    """

    max_switches: int | None = None
    min_dwell_s: float = 0.0

    def __post_init__(self) -> None:
        if self.max_switches is not None and self.max_switches < 0:
            raise RequestError(f"--max-switches needs a number of at least 0, not {self.max_switches}")
        if not (math.isfinite(self.min_dwell_s) and self.min_dwell_s >= 0):
            raise RequestError(f"--min-dwell-s needs a finite time of at least 0 s, not {self.min_dwell_s:g}")

    @property
    def most(self) -> float:
        """The number of changes allowed, infinite where it is not limited."""
        return math.inf if self.max_switches is None else self.max_switches

    def most_within(self, iteration_time_s: float, stages: int) -> float:
        """Changes that are possible at all in an iteration of this time: a stage has time for T / dwell spans.

        A stage that changes its clock has at least two of them.
        """
        if self.min_dwell_s == 0:
            return self.most
        spans = math.floor(iteration_time_s / self.min_dwell_s * (1 + 1e-9))
        return min(self.most, stages * spans if spans >= 2 else 0)


def check_possible(table: ClockTable, limits: SwitchLimits) -> None:
    """Refuse a limit below the changes that no plan can do without, where operations share no measured clock.

    Raises:
        RequestError: names the least number of changes.
    """
    unpriced = np.zeros(table.problem.n_ops)
    for_nothing = replace(
        table,
        effective_FC=np.where(np.isinf(table.time_FC), np.inf, 0.0),
        variants=(None,) * len(table.variants),
    )
    least = cheapest_sequences(for_nothing, unpriced, np.ones(1))
    needed = round(float(least.cost_j[0]))
    if needed > limits.most:
        raise RequestError(
            f"no plan makes do with {limits.max_switches} clock changes an iteration: {needed} are needed where "
            "operations of a stage share no measured clock; raise --max-switches or profile the same clocks for all"
        )
