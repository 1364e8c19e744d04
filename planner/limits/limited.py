"""Plans under limits on clock changes, and the options that they settle on.

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee
from energyopt.planner.limits.variants import chosen_places, times_s
from energyopt.planner.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Limited:
    """Plans, their makespans [P], and a bound on all that obey, of any makespan.

    choices: the place of each operation's option among those measured of its front, [n, P].
    """

    choices: Ints
    makespan_s: Floats
    bound_j: Callable[[float], float]


def most_changes(problem: Problem, limits: SwitchLimits, makespan_s: float) -> float:
    """Changes that a plan of this makespan can have."""
    return limits.most_within(makespan_s + problem.fixed_time_s, problem.schedule.stages)


def settled(referee: Referee, min_dwell_s: float, plans: Choices) -> tuple[Ints, Floats]:
    """The places [n, P] of the options of plans, and the plans' makespans.

    Options that take time which was left may shorten a span, so that some plans do without.
    """
    table = referee.table
    problem = table.problem
    places = chosen_places(table, plans)
    if referee.minds_dwell(min_dwell_s) and table.has_variants:
        time_s = times_s(table, places)
        kept = referee.keeps_with(plans, time_s, min_dwell_s)
        places = np.where(kept, places, table.place_FC[problem.front_of[:, None], plans])
    return places, problem.paths.makespans_s(times_s(table, places))
