"""The options of every front by power: the next one down, and the next one up.

Legend: F fronts, O options of all fronts one after the other, n operations as in `Schedule.ops`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.power.floor import mean_power_w
from energyopt.schemas.options import Option


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ladders:
    """Options with steps between those that no other beats in time and power; -1 where there is no further step.

    begin: where each front's options begin, [F]. down: the fastest option that draws less. up: the slowest of the
    faster options.
    """

    begin: Ints
    time_s: Floats  # [O]
    power_w: Floats  # [O]
    down: Ints  # [O]
    up: Ints  # [O]


def ladders(fronts: Sequence[Sequence[Option]]) -> Ladders:
    """The ladders of all fronts' options."""
    begin = np.cumsum([0, *(len(options) for options in fronts)])
    steps = [_steps(options, int(first)) for options, first in zip(fronts, begin[:-1], strict=True)]
    return Ladders(
        begin=begin[:-1],
        time_s=np.array([one.time_s for options in fronts for one in options]),
        power_w=np.array([mean_power_w(one) for options in fronts for one in options]),
        down=np.concatenate([down for down, _ in steps]),
        up=np.concatenate([up for _, up in steps]),
    )


def _steps(options: Sequence[Option], first: int) -> tuple[Ints, Ints]:
    time_s = np.array([one.time_s for one in options])
    power_w = np.array([mean_power_w(one) for one in options])
    order = np.lexsort((power_w, time_s))
    least_w = np.minimum.accumulate(power_w[order])
    rungs = order[np.diff(least_w, prepend=np.inf) < 0]  # rising in time, falling in power
    down = np.searchsorted(-power_w[rungs], -power_w, side="right")
    up = np.searchsorted(time_s[rungs], time_s, side="left") - 1
    rungs = np.append(rungs + first, -1)
    return rungs[down], np.where(up < 0, -1, rungs[up])
