"""Where a plan's saving comes from: waiting, clocks, overlap, and the SMs that communication gets.

Against the max-clock baseline a plan saves static energy for every second that its iteration is shorter: wait power
x GPUs x time. The rest is dynamic energy. Each operation is taken from what the baseline runs to what the plan runs
in three steps, whose savings add up exactly:

    what runs without a plan, at the highest clock  ->  the same at the plan's clocks              (clock)
    ->  overlapped, with the SMs that the library chooses                                          (overlap)
    ->  with the plan's SM counts and launch points                                                (SM share)

The order is a choice: overlap and SM share are valued at the plan's clock. What overlap brings most is time, which
shows as waiting, or as room for lower clocks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from energyopt.planner.baselines import unplanned
from energyopt.planner.composition.shares import Shares
from energyopt.planner.composition.table import Offer
from energyopt.planner.problem import Problem
from energyopt.schemas.options import Option

_NO_SHARES = Shares(sm_j=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Energy that one GPU of each stage saves in an iteration, J; the four add up to the whole."""

    waiting_j: float
    clock_j: float
    overlap_j: float
    sm_share_j: float


class Savings:
    """Takes plans apart against the max-clock baseline of their problem."""

    def __init__(self, problem: Problem, offer: Offer, baseline_s: float) -> None:
        """baseline_s: the baseline's iteration time."""
        self._problem = problem
        self._baseline_s = baseline_s
        self._unplanned = [unplanned(options) for options in problem.measured]
        self._shares = [offer.shares.get(key, {}) for key in sorted(offer.measured)]

    def of(self, options: Sequence[Option], iteration_time_s: float) -> Saving:
        """The saving of a plan that runs these options, one for each operation of the schedule."""
        clock_j = overlap_j = sm_share_j = 0.0
        by_id = {id(option): option for option in options}
        often = Counter(zip(self._problem.front_of.tolist(), map(id, options), strict=True))
        for (front, which), count in often.items():
            one = self._step(front, by_id[which])
            clock_j, overlap_j = clock_j + count * one[0], overlap_j + count * one[1]
            sm_share_j += count * one[2]
        shorter_s = self._baseline_s - iteration_time_s
        return Saving(
            waiting_j=self._problem.static_power_w * shorter_s,
            clock_j=clock_j,
            overlap_j=overlap_j,
            sm_share_j=sm_share_j,
        )

    def _step(self, front: int, option: Option) -> tuple[float, float, float]:
        """What one operation saves by its clock, by overlapping, and by its SM shares."""
        by_clock = self._unplanned[front]
        same = by_clock[option.sm_clock_mhz]
        shares = self._shares[front].get(option, _NO_SHARES)
        clock_j = self._effective_j(by_clock[max(by_clock)]) - self._effective_j(same)
        overlap_j = self._effective_j(same) - self._effective_j(option) - shares.clock_j - shares.sm_j
        return clock_j + shares.clock_j, overlap_j, shares.sm_j

    def _effective_j(self, option: Option) -> float:
        return option.energy_j - self._problem.wait_power_w * option.time_s
