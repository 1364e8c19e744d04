"""Plans of few clock changes for a long pipeline, found in one that has little more than its ramps.

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

from dataclasses import replace

import numpy as np

from energyopt.planner.arrays import Choices
from energyopt.planner.baselines import max_clock_times_s
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.lifting import shorter
from energyopt.planner.limits.move_search import MoveSearch, Thoroughness
from energyopt.planner.limits.rules import SwitchLimits, check_possible
from energyopt.planner.limits.search import Referee, Task
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress, silent
from energyopt.planner.solve import SHORT, Effort, solve_frontier
from energyopt.schemas.errors import RequestError

_FILLS, _MORE = 3, 8  # microbatches of the short pipeline: so many times the stages, and so many more
_WORTH = 2  # times as many microbatches as that are worth a search of their own
_ENOUGH = 8  # lifted plans
_DIVED = 3 * SHORT  # operations of the short pipeline up to which relaxed problems are solved


def lifted_plans(
    referee: Referee, limits: SwitchLimits, points: int, effort: Effort, progress: Progress
) -> Choices:
    """Plans of clocks [n, P] that obey, for whatever time they take; none where the pipeline is short.

    The short pipeline may change clocks as often as the long one. Where that leaves few plans, since its steady
    state changes them too, it is also searched with its share of the changes.

    points: plans of the short pipeline to begin with.
    """
    problem = referee.table.problem
    none: Choices = np.zeros((problem.n_ops, 0), dtype=np.int16)
    microbatches = _FILLS * problem.schedule.stages + _MORE
    if problem.n_ops <= SHORT or problem.schedule.microbatches < _WORTH * microbatches:
        return none
    short = shorter(problem, microbatches)
    if short is None or limits.max_switches is None:
        return none
    progress("plans of few clock changes, with fewer microbatches", 0.96)
    share = short.problem.n_ops / problem.n_ops
    plans = none
    search = _ShortSearch(short.problem, points, effort)
    for most in (limits.max_switches, int(limits.max_switches * share)):
        found = short.lifted(search.plans(replace(limits, max_switches=most)))
        task = Task(deadline_s=np.inf, limits=limits, power_w=problem.static_power_w)
        found = found[:, np.isfinite(referee.cost_j(task, found))]
        plans = np.unique(np.concatenate((plans, found), axis=1), axis=1)
        if plans.shape[1] >= _ENOUGH:
            break
    return plans


class _ShortSearch:
    """Searches the short pipeline under one limit after another."""

    def __init__(self, problem: Problem, points: int, effort: Effort) -> None:
        baseline_s = problem.paths.makespan_s(max_clock_times_s(problem))
        self._solved = solve_frontier(problem, baseline_s, points, effort, silent)
        self._referee = Referee(clock_table(problem))
        self._how = Thoroughness.DIVES if problem.n_ops <= _DIVED else Thoroughness.MOVES

    def plans(self, limits: SwitchLimits) -> Choices:
        """Plans of clocks that obey, of the short pipeline; none where no plan of its can."""
        free = self._referee.table.of_options(self._solved.choices)
        try:
            check_possible(self._referee.table, limits)
            return MoveSearch(self._referee, self._solved, limits, free, free[:, :0], self._how).plans(silent)
        except RequestError:
            return free[:, :0]
