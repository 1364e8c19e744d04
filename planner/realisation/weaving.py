"""Woven plans: each stage keeps to a period in the mean, with two combinations of options along the wave front.

No single combination takes just a period, and a faster one wastes time with every microbatch. Two of them, mixed,
waste none, but a stage that is late holds up its neighbours. Along any path through a 1F1B pipeline's steady state,
from stage to stage or from microbatch to microbatch, microbatch + stage grows by one with every forward, and
microbatch - stage with every backward. So where the slower combination is given out evenly over these numbers, the
same on all stages, no path meets it more often than a period allows, but for one time over.

A stage whose fastest combination takes the whole period can make up for nothing, so its neighbours must not be
late at all: they keep to the corner of the hull below a period, and the time that this leaves takes in what the
others are late by. Combinations that fill the period better leave them none, and cost more in the end.

Legend: n operations in the sweeper's order, P periods.
"""

from typing import NamedTuple

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.problem import Problem
from energyopt.planner.realisation.stage_fronts import StageFront
from energyopt.schemas.ops import OpKind

_SAME_TIME = 1e-9  # relative


def woven(problem: Problem, order: Ints, stages: list[StageFront], periods_s: Floats) -> Choices:
    """Plans for periods, [n, P]; a stage that is slower than a period at its fastest is at its fastest."""
    wave = _waves(problem)[order]
    front_of = problem.front_of[order]
    plans = np.zeros((len(order), len(periods_s)), dtype=np.int16)
    full = np.array([stage.time_s[0] >= periods_s * (1 - _SAME_TIME) for stage in stages])
    beside = np.zeros_like(full)
    beside[1:] |= full[:-1]
    beside[:-1] |= full[1:]
    for stage, keeps_within in zip(stages, beside, strict=True):
        pair = _around(stage, periods_s)
        share = np.where(keeps_within, 0.0, pair.share)
        for column, front in enumerate(stage.fronts):
            ops = np.flatnonzero(front_of == front)
            slower = _given_out(wave[ops], share)
            plans[ops] = np.where(
                slower, stage.choices[pair.slower, column], stage.choices[pair.faster, column]
            )
    return plans


class _Pair(NamedTuple):
    """Combinations of a stage for each period, and the share of the slower one, [P] each."""

    faster: Ints
    slower: Ints
    share: Floats


def _around(stage: StageFront, periods_s: Floats) -> _Pair:
    """The neighbours of each period on the lower hull of a stage's combinations."""
    corners = lower_hull(stage.time_s.tolist(), stage.effective_j.tolist())
    time_s = stage.time_s[corners]
    last = len(corners) - 1
    left = (np.searchsorted(time_s, periods_s, side="right") - 1).clip(0, max(last - 1, 0))
    right = np.minimum(left + 1, last)
    width_s = np.where(right > left, time_s[right] - time_s[left], 1.0)
    share = ((periods_s - time_s[left]) / width_s).clip(0.0, 1.0)
    return _Pair(faster=corners[left], slower=corners[right], share=share)


def _given_out(wave: Ints, share: Floats) -> Flags:
    """Which of the waves get the slower combination: a share of them, as evenly as can be."""
    return np.asarray(np.floor((wave[:, None] + 1) * share) > np.floor(wave[:, None] * share))


def _waves(problem: Problem) -> Ints:
    """The number of each operation's wave, as in `Schedule.ops`, [n]."""
    schedule = problem.schedule
    places = np.array([schedule.virtual_stages[op.stage][op.chunk] for op in schedule.ops])
    microbatch = np.array([op.microbatch for op in schedule.ops])
    forward = np.array([op.kind is OpKind.FORWARD for op in schedule.ops])
    return np.asarray(np.where(forward, microbatch + places, microbatch - places))
