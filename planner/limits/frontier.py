"""A frontier under limits on clock changes: a plan for every iteration time of the free frontier that can be kept.

Where every free plan obeys, there is nothing to do. Where the number of changes is not limited, plans are found by
blocks (`blocks`), with bounds that know how many changes there is time for. Else, and for short pipelines from
there on, they are found move by move (`move_search`); in long ones that begins with plans of a pipeline of fewer
microbatches (`lift_search`).

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

import numpy as np

from energyopt.planner.arrays import Choices, spread
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.limited import Limited, most_changes, settled
from energyopt.planner.limits.rules import SwitchLimits, check_possible
from energyopt.planner.limits.search import Referee, Task
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.solve import SHORT, Effort, Solved, sharpen
from energyopt.schemas.errors import RequestError

_BORROWED = 12  # solutions of the free problem whose prices bound plans of blocks


def limit_plans(
    problem: Problem, solved: Solved, limits: SwitchLimits, effort: Effort, progress: Progress
) -> Limited | None:
    """Plans that obey for the free plans' makespans and the fastest one possible; None where the free plans obey.

    At quick effort, or in pipelines that are not short, plans of blocks are not improved by moves.

    Raises:
        RequestError: no plan can obey, or none was found that does.
    """
    table = clock_table(problem)
    referee = Referee(table)
    free = table.of_options(solved.choices)
    task = Task(deadline_s=np.inf, limits=limits, power_w=problem.static_power_w)
    if np.isfinite(referee.cost_j(task, free)).all():
        return None
    check_possible(table, limits)
    if not table.has_variants:
        return _found(referee, solved, limits, free, effort, progress)
    found, refused = [], None
    for one in (referee, Referee(clock_table(problem, hurry=True))):
        try:
            found.append(_found(one, solved, limits, free, effort, progress))
        except RequestError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found[0] if len(found) == 1 else _joined(*found)


def _found(
    referee: Referee, solved: Solved, limits: SwitchLimits, free: Choices, effort: Effort, progress: Progress
) -> Limited:
    """Plans by one table of clocks; free: the free plans' clocks, [n, P]."""
    # loaded here: what is not limited needs none of this
    from energyopt.planner.limits.block_search import block_plans
    from energyopt.planner.limits.lift_search import lifted_plans
    from energyopt.planner.limits.move_search import MoveSearch, Thoroughness

    how = Thoroughness.BOUNDS
    if limits.max_switches is None:
        known = block_plans(referee, limits.min_dwell_s, solved, effort, progress)
        if known.shape[1] and (referee.table.problem.n_ops > SHORT or effort is Effort.QUICK):
            return _of_blocks(referee, limits, solved, known)
    else:
        known = lifted_plans(referee, limits, free.shape[1], effort, progress)
        if known.shape[1]:
            how = Thoroughness.MOVES
    return MoveSearch(referee, solved, limits, free, known, how).run(progress)


def _of_blocks(referee: Referee, limits: SwitchLimits, solved: Solved, plans: Choices) -> Limited:
    """Plans [n, P] with bounds by the free problem's prices, with one on changes where few are possible."""
    from energyopt.planner.limits.move_search import book_for, bound_under

    problem = referee.table.problem
    places, makespan_s = settled(referee, limits.min_dwell_s, plans)
    sharpen(problem, solved.curve, makespan_s)
    book = book_for(referee.table, solved, limits)
    for time_s in spread(makespan_s, _BORROWED).tolist():
        book.borrow_free(time_s, most_changes(problem, limits, time_s))
    return Limited(choices=places, makespan_s=makespan_s, bound_j=bound_under(book, problem, limits))


def _joined(one: Limited, other: Limited) -> Limited:
    """The plans of both, and the better of both bounds."""
    return Limited(
        choices=np.concatenate((one.choices, other.choices), axis=1),
        makespan_s=np.concatenate((one.makespan_s, other.makespan_s)),
        bound_j=lambda makespan_s: max(one.bound_j(makespan_s), other.bound_j(makespan_s)),
    )
