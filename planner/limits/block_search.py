"""Plans of blocks for the iteration times of a free frontier, found as free plans are.

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

import numpy as np

from energyopt.planner.arrays import Choices, Ints, spread
from energyopt.planner.baselines import max_clock_times_s
from energyopt.planner.limits.block_seeds import paced_blocks
from energyopt.planner.limits.blocks import BlockProblem, block_numbers
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.diving import Dive
from energyopt.planner.limits.search import Referee
from energyopt.planner.placement import grid_windows
from energyopt.planner.progress import Progress, part
from energyopt.planner.realisation.rounding import Rounder
from energyopt.planner.solve import Effort, Solved, budget_for, repeats_of, search_plans

_DIVE_WORK = {Effort.QUICK: 0.4e6, Effort.NORMAL: 1.5e6, Effort.THOROUGH: 6e6}
"""Operations x blocks of all dives; about a second at quick effort. The fastest plan comes first."""

_MORE_TIME = 1.01  # seeds are repaired for so much more than their makespan too, so that prices can choose
_BEGIN, _END = 0.95, 0.97  # shares of planning that are done before and after


def block_plans(
    referee: Referee, min_dwell_s: float, solved: Solved, effort: Effort, progress: Progress
) -> Choices:
    """Plans of clocks [n, P] that keep each clock for `min_dwell_s`; none where a block has no common clock.

    Among them are all blocks at their fastest and, where it obeys, every operation at its highest clock.
    """
    table = referee.table
    problem, n_ops = table.problem, table.problem.n_ops
    blocks = BlockProblem(table, block_numbers(table, min_dwell_s))
    if not blocks.is_possible:
        return np.zeros((n_ops, 0), dtype=np.int16)
    repeats = repeats_of(problem)
    groups = None if repeats is None else repeats.op_class
    rounder = Rounder(blocks.problem, solved.curve, groups, blocks.block_of, blocks.kind_of)
    budget = budget_for(effort, n_ops)
    windows = grid_windows(
        problem,
        solved.curve,
        problem.paths.makespan_s(max_clock_times_s(problem)),
        budget.subdivisions,
        reach_s=problem.paths.makespan_s(blocks.slowest_s()),
    )
    paced = rounder.rated(paced_blocks(blocks, budget.periods)[rounder.sweeper.order])
    found = search_plans(
        problem,
        solved.curve,
        rounder,
        (paced.choices, _MORE_TIME * paced.makespan_s),
        windows,
        len(solved.makespan_s),
        budget,
        part(progress, _BEGIN, _END),
    )
    choices = np.zeros((n_ops, found.shape[1] + 1), dtype=np.int64)
    choices[problem.graph.order, :-1] = found
    plans = blocks.clocks(choices)
    plans = np.concatenate((plans, _dived(referee, blocks.block_of, plans, effort), _highest(table)), axis=1)
    return plans[:, referee.keeps(plans, min_dwell_s)]


def _dived(referee: Referee, block_of: Ints, plans: Choices, effort: Effort) -> Choices:
    """Plans by the relaxed problem of blocks for the makespans of others [n, P], as many as are found soon."""
    most = int(_DIVE_WORK[effort] / (len(block_of) * (int(block_of.max()) + 1)))
    if most == 0:
        return plans[:, :0]
    dive, tried_s = Dive(referee.table, block_of), spread(referee.makespan_s(plans), most)
    found = [plan for time_s in tried_s.tolist() if (plan := dive.plan(time_s)) is not None]
    return np.stack(found, axis=1) if found else plans[:, :0]


def _highest(table: ClockTable) -> Choices:
    """Every operation at the highest clock that it was measured at, [n, 1]."""
    measured = np.isfinite(table.time_nC)
    highest = measured.shape[1] - 1 - measured[:, ::-1].argmax(axis=1)
    return np.asarray(highest[:, None].astype(np.int16))
