"""Plans of few clock changes for a long pipeline, found in one with as few microbatches as it has ramps.

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

import numpy as np

from energyopt.planner.arrays import Choices
from energyopt.planner.baselines import max_clock_times_s
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.lifting import shorter
from energyopt.planner.limits.move_search import MoveSearch, Thoroughness
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee, Task
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress, part
from energyopt.planner.solve import SHORT, Effort, solve_frontier

_FILLS, _MORE = 3, 8  # microbatches of the short pipeline: so many times the stages, and so many more
_WORTH = 2  # times as many microbatches as that are worth a search of their own
_DIVED = 3 * SHORT  # operations of the short pipeline up to which relaxed problems are solved
_BEGIN, _END = 0.95, 0.97  # shares of planning that are done before and after


def lifted_plans(
    referee: Referee, limits: SwitchLimits, points: int, effort: Effort, progress: Progress
) -> Choices:
    """Plans of clocks [n, P] that obey, for whatever time they take; none where the pipeline is short.

    points: plans of the short pipeline to begin with.
    """
    problem = referee.table.problem
    none: Choices = np.zeros((problem.n_ops, 0), dtype=np.int16)
    microbatches = _FILLS * problem.schedule.stages + _MORE
    if problem.n_ops <= SHORT or problem.schedule.microbatches < _WORTH * microbatches:
        return none
    short = shorter(problem, microbatches)
    if short is None:
        return none
    plans = short.lifted(_short_plans(short.problem, limits, points, effort, progress))
    plans = np.unique(plans, axis=1)
    task = Task(deadline_s=np.inf, limits=limits, power_w=problem.static_power_w)
    return plans[:, np.isfinite(referee.cost_j(task, plans))]


def _short_plans(
    problem: Problem, limits: SwitchLimits, points: int, effort: Effort, progress: Progress
) -> Choices:
    baseline_s = problem.paths.makespan_s(max_clock_times_s(problem))
    solved = solve_frontier(problem, baseline_s, points, effort, part(progress, _BEGIN, _END))
    table = clock_table(problem)
    free = table.of_options(solved.choices)
    how = Thoroughness.DIVES if problem.n_ops <= _DIVED else Thoroughness.MOVES
    return MoveSearch(Referee(table), solved, limits, free, free[:, :0], how).plans(progress)
