"""Simple plans to begin the search with, and plans made to obey by joining runs.

Legend: n operations as in `Schedule.ops`, G groups, C clocks, W plans (columns).
"""

from itertools import pairwise

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints, spread
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.search import Referee
from energyopt.planner.limits.viterbi import priced_j

_TIME_FACTORS = (0.3, 0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 2.0, 4.0, 1e6)
_PACES = 256
NEAR_PACES = np.geomspace(0.9, 1.25, 64)  # times that of the slowest stage; below 1 that one falls behind
MARGINS = (0.5, 1.0, 2.0)  # microbatches at either end that run at full speed, in numbers of stages
_CUTS = np.arange(1, 16) / 16  # shares of the microbatches at which two plans are joined
_MOST_MENDED = 8
_MOST_JOINS = 64  # runs of one plan that are joined with a neighbour


def even_plans(table: ClockTable, group_of: Ints, common: Flags, price_w: Floats) -> Choices:
    """One clock for each group, the cheapest at multiples of prices [n]; common [G, C] are the clocks it may have.

    The last two are the fastest, and the highest clock.
    """
    found = []
    for factor in _TIME_FACTORS:
        cost_j = np.zeros(common.shape)
        np.add.at(cost_j, group_of, priced_j(table, factor * price_w))
        found.append(np.where(common, cost_j, np.inf).argmin(axis=1))
    time_s = np.zeros(common.shape)
    np.add.at(time_s, group_of, table.time_nC)
    found.append(np.where(common, time_s, np.inf).argmin(axis=1))
    found.append(common.shape[1] - 1 - common[:, ::-1].argmax(axis=1))
    return np.stack([clocks[group_of] for clocks in found], axis=1).astype(np.int16)


def paced_plans(table: ClockTable, group_of: Ints, common: Flags) -> Choices:
    """One clock for each group, the cheapest that keeps a pace: the same most time for every group, [n, W].

    Where groups are stages, the slowest of them sets the pace, and the others need not be faster.
    """
    time_s, effective_j = _of_groups(table, group_of, common)
    paces_s = np.unique(time_s[np.isfinite(time_s)])
    paces_s = spread(paces_s[paces_s >= time_s.min(axis=1).max()], _PACES)
    found = [np.where(time_s <= pace_s, effective_j, np.inf).argmin(axis=1)[group_of] for pace_s in paces_s]
    return np.stack(found, axis=1).astype(np.int16)


def fast_ended_plans(table: ClockTable, common: Flags) -> Choices:
    """One clock for the middle of each stage, paced, and the fastest one at both its ends, [n, W].

    So they end hardly later than the fastest plan. Stages that cannot keep the pace are fastest throughout.
    """
    time_s, effective_j = _of_groups(table, table.stage_of, common)
    fastest = time_s.argmin(axis=1)
    found = []
    for pace_s in NEAR_PACES * time_s.min(axis=1).max():
        paced = np.where(time_s <= pace_s, effective_j, np.inf)
        clocks = np.where(np.isfinite(paced.min(axis=1)), paced.argmin(axis=1), fastest)
        found.append(clocks[table.stage_of])
    even, ends = np.stack(found, axis=1), fastest[table.stage_of][:, None]
    stages = table.problem.schedule.stages
    middles = [between_ends(table, round(margin * stages))[:, None] for margin in MARGINS]
    return np.concatenate([np.where(middle, even, ends) for middle in middles], axis=1).astype(np.int16)


def between_ends(table: ClockTable, microbatches: int) -> Flags:
    """All but so many microbatches at either end of each stage's order, and what runs between those, [n]."""
    count = table.problem.schedule.microbatches
    microbatch = table.microbatch
    early, late = microbatch < microbatches, microbatch >= count - microbatches
    inside = np.zeros(len(microbatch), dtype=np.bool_)
    for begin, end in pairwise(table.first.tolist()):
        after = begin + int(np.flatnonzero(early[begin:end]).max(initial=-1)) + 1
        before = begin + int(np.flatnonzero(late[begin:end]).min(initial=end - begin))
        inside[after:before] = True
    return inside


def _of_groups(table: ClockTable, group_of: Ints, common: Flags) -> tuple[Floats, Floats]:
    """Time and effective energy of each group at each clock, infinite where it is not common, [G, C] each."""
    time_s, effective_j = np.zeros((2, *common.shape))
    np.add.at(time_s, group_of, table.time_nC)
    np.add.at(effective_j, group_of, table.effective_nC)
    return np.where(common, time_s, np.inf), np.where(common, effective_j, np.inf)


def joined_plans(table: ClockTable, plan: Choices, others: Choices) -> Choices:
    """A plan [n] for the first microbatches and one of the others [n, W] for the rest, and the other way round."""
    microbatch = table.microbatch[:, None]
    found = [plan[:, None]]
    for share in _CUTS:
        early = microbatch < share * table.problem.schedule.microbatches
        found.append(np.where(early, plan[:, None], others))
        found.append(np.where(early, others, plan[:, None]))
    return np.concatenate(found, axis=1)


def mended(referee: Referee, min_dwell_s: float, plans: Choices) -> Choices:
    """Plans whose spans are too short, with short runs joined to a neighbour, as far as that goes; few, [n, W]."""
    if not (referee.minds_dwell(min_dwell_s) and plans.shape[1]):
        return plans[:, :0]
    cheapest = np.argsort(referee.table.effective_j(plans), kind="stable")[:_MOST_MENDED]
    return np.stack([_joined(referee, min_dwell_s, plan) for plan in plans[:, cheapest].T], axis=1)


def _joined(referee: Referee, min_dwell_s: float, plan: Choices) -> Choices:
    """Join the run of least time with the neighbour whose clock is higher, again and again."""
    table = referee.table
    for _ in range(_MOST_JOINS):
        if referee.keeps(plan[:, None], min_dwell_s)[0]:
            break
        breaks = (plan[1:] != plan[:-1]) | ~table.follows
        run_of = np.concatenate(([0], np.cumsum(breaks)))
        busy_s = np.bincount(run_of, table.time_nC[np.arange(len(plan)), plan])
        stage_runs = np.bincount(table.stage_of[np.flatnonzero(np.diff(run_of, prepend=-1))])
        alone = stage_runs[table.stage_of[np.searchsorted(run_of, np.arange(len(busy_s)))]] == 1
        shortest = int(np.where(alone, np.inf, busy_s).argmin())
        joined = _with_neighbours_clock(table, plan, run_of == shortest)
        if (joined == plan).all():
            break
        plan = joined
    return plan


def _with_neighbours_clock(table: ClockTable, plan: Choices, run: Flags) -> Choices:
    inside = np.flatnonzero(run)
    first, last = int(inside[0]), int(inside[-1])
    sides = [first - 1] if first and table.follows[first - 1] else []
    sides += [last + 1] if last + 1 < len(plan) and table.follows[last] else []
    measured = [plan[side] for side in sides if np.isfinite(table.time_nC[inside, plan[side]]).all()]
    if not measured:
        return plan
    joined = plan.copy()
    joined[inside] = max(measured)
    return joined
