"""From a plan to a better one by small moves; each is tried on the whole graph, only their order is estimated.

Moves are ranked by what they add at the relaxed problem's prices. Near its optimum many add next to nothing: slower
here, faster there. So single moves are taken as long as one helps, then the best of all pairs of promising ones.

Legend: n operations as in `Schedule.ops`, W plans (columns).
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.dwell import shortest_dwell_s
from energyopt.planner.limits.moves import Moves, Neighbourhood
from energyopt.planner.limits.rules import SwitchLimits

_INSIDE = 1e-12  # relative excess over a deadline that is rounding
_GAIN = 1e-9  # relative gain below which a plan is no better
_SINGLES = 192  # moves tried alone in a round
_TOGETHER = 24  # helpful moves made together, as many as go
_PARTNERS = 24  # moves tried in pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a plan is searched for: the least effective energy + power_w x makespan of all that obey.

    With a power_w of the wait power of all stages that is the iteration's energy; with a very large one, its time.
    """

    deadline_s: float
    limits: SwitchLimits
    power_w: float


class Referee:
    """Says what plans cost in a task; infinite for those that miss the deadline or a limit."""

    def __init__(self, table: ClockTable) -> None:
        self.table = table
        self._paths = table.problem.paths
        self._shortest_s = float(table.time_FC.min())

    def makespan_s(self, plans: Choices) -> Floats:
        """The longest path of each plan, [W]."""
        return self._paths.makespans_s(self.table.time_s(plans))

    def minds_dwell(self, min_dwell_s: float) -> bool:
        """Whether spans can be too short at all: not every operation is long enough by itself."""
        return min_dwell_s > self._shortest_s

    def keeps(self, plans: Choices, min_dwell_s: float) -> Flags:
        """Whether each plan keeps every clock for so long, [W]."""
        return self.keeps_with(plans, self.table.time_s(plans), min_dwell_s)

    def keeps_with(self, plans: Choices, time_s: Floats, min_dwell_s: float) -> Flags:
        """The same for durations [n, W] that need not be those of the table."""
        dwell_s = self._dwell_s(plans, time_s, self._paths.finishes_s(time_s))
        return np.asarray(dwell_s >= min_dwell_s * (1 - _INSIDE))

    def _dwell_s(self, plans: Choices, time_s: Floats, finish_s: Floats) -> Floats:
        total_s = finish_s.max(axis=0, initial=0.0) + self.table.problem.fixed_time_s
        return shortest_dwell_s(self.table, plans, finish_s - time_s, total_s)

    def cost_j(self, task: Task, plans: Choices) -> Floats:
        """The task's objective for each plan, [W]."""
        cost_j = np.full(plans.shape[1], np.inf)
        kept = np.flatnonzero(self.table.switches(plans) <= task.limits.most)
        plans = plans[:, kept]
        time_s = self.table.time_s(plans)
        finish_s = self._paths.finishes_s(time_s)
        makespan_s = finish_s.max(axis=0, initial=0.0)
        obeys = makespan_s <= task.deadline_s * (1 + _INSIDE)
        if self.minds_dwell(task.limits.min_dwell_s):
            obeys &= self._dwell_s(plans, time_s, finish_s) >= task.limits.min_dwell_s * (1 - _INSIDE)
        energy_j = self.table.effective_j(plans) + task.power_w * makespan_s
        cost_j[kept] = np.where(obeys, energy_j, np.inf)
        return cost_j


def improve(
    referee: Referee, task: Task, plan: Choices, neighbourhood: Neighbourhood, rounds: int
) -> tuple[Choices, float]:
    """A plan [n] that obeys and costs no more, and its cost; at most so many rounds of moves."""
    cost_j = float(referee.cost_j(task, plan[:, None])[0])
    for _ in range(rounds):
        moves = _ranked(neighbourhood.around(plan))
        better = _by_singles(referee, task, plan, neighbourhood, moves)
        if better is None or better[1] >= cost_j - _GAIN * abs(cost_j):
            better = _by_pairs(referee, task, plan, neighbourhood, moves)
        if better is None or better[1] >= cost_j - _GAIN * abs(cost_j):
            break
        plan, cost_j = better
    return plan, cost_j


def _ranked(moves: Moves) -> Moves:
    """The most promising moves first, as many as are ever tried."""
    return moves.only(np.argsort(moves.priced_j, kind="stable"))


def _by_singles(
    referee: Referee, task: Task, plan: Choices, neighbourhood: Neighbourhood, moves: Moves
) -> tuple[Choices, float] | None:
    """The plan after the best single move, or after as many of the helpful ones as go together."""
    worth = np.flatnonzero((moves.energy_j < 0) | (task.power_w > 0) & (moves.priced_j < 0))[:_SINGLES]
    if not len(worth):
        return None
    tried = np.repeat(plan[:, None], len(worth), axis=1)
    for column, index in enumerate(worth.tolist()):
        neighbourhood.make(tried, column, moves, index)
    cost_j = referee.cost_j(task, tried)
    order = np.argsort(cost_j, kind="stable")
    now_j = float(referee.cost_j(task, plan[:, None])[0])
    helpful = worth[order[cost_j[order] < now_j]][:_TOGETHER].tolist()
    if not helpful:
        return None
    together = np.repeat(plan[:, None], len(helpful), axis=1)
    for column in range(len(helpful)):
        for index in helpful[: column + 1]:
            neighbourhood.make(together, column, moves, index)
    return _cheapest(referee, task, together)


def _by_pairs(
    referee: Referee, task: Task, plan: Choices, neighbourhood: Neighbourhood, moves: Moves
) -> tuple[Choices, float] | None:
    """The plan after the best pair of promising moves."""
    count = min(_PARTNERS, len(moves.clock))
    one, other = np.triu_indices(count, 1)
    if not len(one):
        return None
    tried = np.repeat(plan[:, None], len(one), axis=1)
    for column, (first, second) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        neighbourhood.make(tried, column, moves, first)
        neighbourhood.make(tried, column, moves, second)
    return _cheapest(referee, task, tried)


def _cheapest(referee: Referee, task: Task, plans: Choices) -> tuple[Choices, float]:
    cost_j = referee.cost_j(task, plans)
    best = int(cost_j.argmin())
    return plans[:, best], float(cost_j[best])
