"""Power over the time of one iteration, summed over GPUs: piecewise constant, exact, in time n log n.

A GPU draws an operation's energy / time from the operation's start to its end, and wait power at all other times,
those of transfers and of an iteration's fixed part included. Power within an operation is thus its mean: kernels
differ, for milliseconds, from what their operation draws. The integral over an iteration is the plan's energy.

Legend: n operations as in `Schedule.ops`, S stages, k steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.simulation import Timeline, simulate
from energyopt.schemas.ops import Schedule
from energyopt.schemas.options import Option

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier

_SAME_TIME = 1e-12  # of an iteration: changes closer together than that are one, apart by rounding alone
_ROUNDING = 1e-9  # relative: what lasts too short or exceeds a cap by less does so by rounding alone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerOverTime:
    """Power of some GPUs: `power_w[i]` from `edge_s[i]` to `edge_s[i + 1]`, from 0 to the iteration's end."""

    edge_s: Floats  # [k + 1]
    power_w: Floats  # [k]

    @property
    def energy_j(self) -> float:
        """The integral over the iteration."""
        return float(self.power_w @ np.diff(self.edge_s))

    @property
    def average_w(self) -> float:
        """The mean over the iteration."""
        return self.energy_j / float(self.edge_s[-1])

    def peak_w(self, lasts_s: float = 0.0) -> float:
        """The highest power that is drawn, or exceeded, for `lasts_s` on end; iterations follow one another.

        0 counts every overlap of operations, however short. Board power limits and power supplies act over
        milliseconds, breakers and utilities over seconds: a longer span gives what they see.
        """
        if lasts_s <= 0:
            return float(self.power_w.max())
        levels, spans_s = np.unique(self.power_w), np.diff(self.edge_s)
        low, high = 0, len(levels) - 1  # the lowest level is never undercut, so that it lasts for ever
        while low < high:
            middle = (low + high + 1) // 2
            lasting = _lasting(self.power_w >= levels[middle], spans_s, lasts_s).any()
            low, high = (middle, high) if lasting else (low, middle - 1)
        return float(levels[low])

    def beyond(self, cap_w: float, lasts_s: float = 0.0) -> Flags:
        """Which steps are part of a time of `lasts_s` or more for which power stays above a cap, [k]."""
        return _lasting(self.power_w > cap_w * (1 + _ROUNDING), np.diff(self.edge_s), lasts_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loads:
    """When each operation runs and what it draws beyond wait power, on one GPU of its stage."""

    start_s: Floats  # [n]
    finish_s: Floats  # [n]
    beyond_w: Floats  # [n]
    stage_of: Ints  # [n]
    stages: int
    wait_power_w: float
    iteration_time_s: float

    def of_gpus(self, gpus: Floats) -> PowerOverTime:
        """The power of so many GPUs of each stage together, [S]."""
        weight_w = gpus[self.stage_of] * self.beyond_w
        own = weight_w != 0
        start_s, finish_s, weight_w = self.start_s[own], self.finish_s[own], weight_w[own]
        time_s = np.concatenate(([0.0, self.iteration_time_s], start_s, finish_s))
        step_w = np.concatenate(([0.0, 0.0], weight_w, -weight_w))
        order = np.argsort(time_s, kind="stable")
        time_s, step_w = time_s[order], step_w[order]
        first = np.flatnonzero(np.diff(time_s, prepend=-np.inf) > _SAME_TIME * self.iteration_time_s)
        edge_s = time_s[first]
        edge_s[-1] = self.iteration_time_s
        power_w = self.wait_power_w * float(gpus.sum()) + np.cumsum(np.add.reduceat(step_w, first))
        return PowerOverTime(edge_s=edge_s, power_w=power_w[:-1])

    def of_pipeline(self, gpus_per_stage: int) -> PowerOverTime:
        """The power of all GPUs of one pipeline."""
        return self.of_gpus(np.full(self.stages, float(gpus_per_stage)))


def loads_of(schedule: Schedule, timeline: Timeline, options: Sequence[Option], wait_power_w: float) -> Loads:
    """The loads of a simulated plan that runs these options, one for each operation of the schedule."""
    power_w = np.array([one.energy_j / one.time_s if one.time_s else wait_power_w for one in options])
    return Loads(
        start_s=np.array(timeline.start_s),
        finish_s=np.array(timeline.finish_s),
        beyond_w=power_w - wait_power_w,
        stage_of=np.repeat(np.arange(schedule.stages), [len(order) for order in schedule.orders]),
        stages=schedule.stages,
        wait_power_w=wait_power_w,
        iteration_time_s=timeline.iteration_time_s,
    )


def loads_of_point(frontier: "Frontier", index: int) -> Loads:
    """The loads of a point of a frontier.

    Raises:
        IndexError: no such point.
        ScheduleError: the file's schedule cannot run.
    """
    schedule, job = frontier.schedule, frontier.pipeline
    options = frontier.chosen_options(index)
    timeline = simulate(schedule, [one.time_s for one in options], job.p2p_time_s, job.fixed_time_s)
    return loads_of(schedule, timeline, options, frontier.wait_power_w)


def _lasting(above: Flags, spans_s: Floats, lasts_s: float) -> Flags:
    """Which spans of a cycle belong to a run of `above` that takes long enough; one without end always does."""
    if above.all() or not above.any():
        return above
    turned = int(np.flatnonzero(~above)[0])  # begin where it does not hold, so that no run goes over the end
    above, spans_s = np.roll(above, -turned), np.roll(spans_s, -turned)
    change = np.flatnonzero(np.diff(above, prepend=False, append=False))
    until_s = np.concatenate(([0.0], np.cumsum(spans_s)))
    long = until_s[change[1::2]] - until_s[change[::2]] >= lasts_s * (1 - _ROUNDING)
    mark = np.zeros(len(above) + 1, dtype=np.int64)
    mark[change[::2][long]], mark[change[1::2][long]] = 1, -1
    return np.roll(np.cumsum(mark)[:-1] > 0, turned)
