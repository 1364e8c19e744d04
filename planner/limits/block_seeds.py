"""Steady states of blocks, as seeds: in the middle every stage keeps one pace, its ends run at full speed.

What a block's operations overrun by in a sweep adds up, and where little time is spare such plans are late. Stages
that keep one pace from ramp to ramp are not: near the fastest iteration time hardly anything else is in time.

Legend: n operations as in `Schedule.ops`, B blocks, P paces (columns).
"""

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints, spread
from energyopt.planner.limits.blocks import BlockProblem
from energyopt.planner.limits.starts import MARGINS, NEAR_PACES

_ROUNDING = 1e-9  # relative


def paced_blocks(blocks: BlockProblem, most: int) -> Choices:
    """Plans of blocks' options, [n, P], for at most so many paces."""
    schedule = blocks.problem.schedule
    begins = np.flatnonzero(np.diff(blocks.block_of, prepend=-1))
    microbatch = np.array([op.microbatch for op in schedule.ops])
    earliest, latest = np.minimum.reduceat(microbatch, begins), np.maximum.reduceat(microbatch, begins)
    even = _even(blocks, np.array([op.stage for op in schedule.ops])[begins], spread(NEAR_PACES, most))
    found = []
    for margin in (0.0, *MARGINS):
        reach = margin * schedule.stages
        middle = (earliest >= reach) & (latest < schedule.microbatches - reach)
        found.append(np.where(middle[:, None], even, 0))
    return np.unique(np.concatenate(found, axis=1).astype(np.int16), axis=1)[blocks.block_of]


def _even(blocks: BlockProblem, stage_of: Ints, paces: Floats) -> Ints:
    """The slowest option of each block that keeps each pace, the fastest where none does, [B, P]; stage_of: [B]."""
    fastest_s = np.array([time_s[0] for time_s in blocks.time_s])[blocks.kind_of]
    stage_s = np.bincount(stage_of, fastest_s)
    allowed_s: Floats = (fastest_s / stage_s[stage_of] * stage_s.max())[:, None] * paces
    chosen = np.zeros(allowed_s.shape, dtype=np.int64)
    for kind, time_s in enumerate(blocks.time_s):
        of_kind = blocks.kind_of == kind
        chosen[of_kind] = np.searchsorted(time_s, allowed_s[of_kind] * (1 + _ROUNDING), side="right") - 1
    return np.maximum(chosen, 0)
