"""Plans under limits on clock changes, found move by move.

Prices bound plans of every deadline, be they the free problem's or solved for. Each deadline gets a plan of its
own, searched from the free plans and from others that are known.

Legend: n operations as in `Schedule.ops`, P plans (columns).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto

import numpy as np

from energyopt.planner.arrays import Choices, Floats, spread
from energyopt.planner.baselines import max_clock_times_s
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.groups import common_clocks, stage_groups
from energyopt.planner.limits.limited import Limited, most_changes, settled
from energyopt.planner.limits.moves import RunMoves
from energyopt.planner.limits.plans import even_by_stage, limited_plan
from energyopt.planner.limits.prices import PriceBook
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee, Task, improve
from energyopt.planner.limits.viterbi import cheapest_sequences
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.solve import Solved
from energyopt.schemas.errors import RequestError

_GUIDES = 3  # sets of prices that a plan is searched by
_ANCHORS = 6  # deadlines that prices are solved for
_WORKERS = 2
_TIME_COUNTS = 1e3  # how many times static power a second costs where the fastest plan is looked for
_AROUND = 2  # known plans on either side of a deadline
_ROUNDS = 60
_SAME_TIME = 1e-9  # relative distance below which two deadlines are one
_REACH = 1.1  # how far past the slowest free plan that of least energy is looked for


class Thoroughness(Enum):
    """What a search solves relaxed problems for: for plans and their bounds, for plans alone, or for neither."""

    BOUNDS = auto()
    DIVES = auto()
    MOVES = auto()


class MoveSearch:
    """Plans for the free plans' makespans and the fastest one possible."""

    def __init__(
        self,
        referee: Referee,
        solved: Solved,
        limits: SwitchLimits,
        free: Choices,
        known: Choices,
        thoroughness: Thoroughness = Thoroughness.BOUNDS,
    ) -> None:
        """free, known: plans to begin with, as clocks [n, P]; known ones obey."""
        self._referee, self._table, self._problem = referee, referee.table, referee.table.problem
        self._limits = limits
        self._free, self._free_s = free, solved.makespan_s
        self._given = known
        if thoroughness is Thoroughness.MOVES:  # else each plan is searched from all of these
            known = np.concatenate((known, self._even(1.0)), axis=1)
        self._known, self._known_s = self._best(known)
        self._thoroughness = thoroughness
        self._book = book_for(self._table, solved, limits)

    def run(self, progress: Progress) -> Limited:
        """Search; what is found obeys."""
        places, makespan_s = settled(self._referee, self._limits.min_dwell_s, self.plans(progress))
        return Limited(
            choices=places,
            makespan_s=makespan_s,
            bound_j=bound_under(self._book, self._problem, self._limits),
        )

    def plans(self, progress: Progress) -> Choices:
        """Plans of clocks that obey, [n, P].

        Raises:
            RequestError: none was found.
        """
        progress("prices of clock changes", 0.97)
        fastest = self._fastest()
        deadlines_s = self._deadlines_s(float(self._referee.makespan_s(fastest[:, None])[0]))
        if self._thoroughness is Thoroughness.BOUNDS or self._book.is_grouped:
            anchors_s = spread(deadlines_s, _ANCHORS).tolist()
            self._book.solve([(time_s, self._most(time_s)) for time_s in anchors_s])
        for time_s in deadlines_s.tolist():
            self._book.borrow_free(time_s, self._most(time_s))
        progress("plans of few clock changes", 0.98)
        with ThreadPoolExecutor(_WORKERS) as pool:
            found = list(pool.map(lambda time_s: self._plan(time_s, fastest), deadlines_s.tolist()))
        plans = np.stack([*found, self._least_energy(found[-1], float(deadlines_s[-1]))], axis=1)
        return np.concatenate((plans, self._given), axis=1)

    def _most(self, makespan_s: float) -> float:
        return most_changes(self._problem, self._limits, makespan_s)

    def _even(self, times: float) -> Choices:
        """Plans of few changes by stage at about so many times the wait power, obeying or not, [n, W]."""
        return even_by_stage(self._table, self._price_w(times))

    def _price_w(self, times: float) -> Floats:
        """So many times the wait power as the price of each operation's time, [n]."""
        return np.full(self._problem.n_ops, times * self._problem.wait_power_w)

    def _best(self, plans: Choices) -> tuple[Choices, Floats]:
        """Of plans [n, W] those that obey and that no other beats in time and energy, fastest first; makespans."""
        cost_j = self._referee.cost_j(_task(self._problem, np.inf, self._limits), plans)
        makespan_s = self._referee.makespan_s(plans)
        ranked = np.lexsort((cost_j, makespan_s))
        ranked = ranked[np.isfinite(cost_j[ranked])]
        least_j = np.minimum.accumulate(cost_j[ranked])
        better = ranked[np.diff(least_j, prepend=np.inf) < 0]
        return plans[:, better], makespan_s[better]

    def _fastest(self) -> Choices:
        """The fastest plan found that obeys, [n]."""
        task = _task(self._problem, np.inf, self._limits, _TIME_COUNTS)
        begun = np.concatenate((self._free, self._known, self._fewest()), axis=1)
        if self._thoroughness is not Thoroughness.MOVES:
            begun = np.concatenate((begun, self._even(_TIME_COUNTS)), axis=1)
        cost_j = self._referee.cost_j(task, begun)
        if np.isinf(cost_j.min()):
            raise RequestError(
                f"no plan found keeps each clock for {self._limits.min_dwell_s:g} s; lower --min-dwell-s, or "
                "profile the same clocks for all operations of a stage"
            )
        moves = RunMoves(self._table, self._price_w(_TIME_COUNTS), 0.0)
        return improve(self._referee, task, begun[:, int(cost_j.argmin())], moves, _ROUNDS)[0]

    def _fewest(self) -> Choices:
        """A plan of fewest changes, whatever its time: what is left where no other obeys, [n, 1]."""
        energy_j = np.where(np.isfinite(self._table.effective_nC), np.abs(self._table.effective_nC), 0.0)
        dearest_j = np.array([2 * float(energy_j.max(axis=1).sum()) + 1.0])
        return cheapest_sequences(self._table, np.zeros(self._problem.n_ops), dearest_j).plans

    def _deadlines_s(self, fastest_s: float) -> Floats:
        baseline_s = self._problem.paths.makespan_s(max_clock_times_s(self._problem))
        wished_s = np.unique(np.append(self._free_s, baseline_s))
        later_s = wished_s[wished_s > fastest_s * (1 + _SAME_TIME)]
        return np.concatenate(([fastest_s], later_s))

    def _plan(self, deadline_s: float, fastest: Choices) -> Choices:
        """The best plan found for a deadline, [n]; the fastest one always keeps it."""
        task = _task(self._problem, deadline_s, self._limits)
        nearest = np.argsort(np.abs(self._free_s - deadline_s), kind="stable")[:2]
        late = int(np.searchsorted(self._known_s, deadline_s, side="right"))
        around = self._known[:, max(late - _AROUND, 0) : late + _AROUND]
        known = np.concatenate((self._free[:, nearest], around, fastest[:, None]), axis=1)
        guides = self._book.guides(deadline_s, self._most(deadline_s), _GUIDES)
        thorough = self._thoroughness is not Thoroughness.MOVES
        found = limited_plan(self._referee, task, guides, known, thorough=thorough)
        return fastest if found is None else found.plan

    def _least_energy(self, last: Choices, last_s: float) -> Choices:
        """The last plan, made cheaper at whatever time that takes."""
        guide = self._book.guides(last_s, self._most(last_s), 1)[0].prices
        moves = RunMoves(self._table, guide.of_ops(self._problem.graph), guide.change_j)
        task = _task(self._problem, _REACH * last_s, self._limits)
        return improve(self._referee, task, last, moves, _ROUNDS)[0]


def bound_under(book: PriceBook, problem: Problem, limits: SwitchLimits) -> Callable[[float], float]:
    """The bound on plans that obey, of any makespan; that on one clock per stage only where none may change."""

    def bound_j(makespan_s: float) -> float:
        most = most_changes(problem, limits, makespan_s)
        if book.is_grouped and most > 0:
            return book.free_bound_j(makespan_s)
        return book.bound_j(makespan_s, most)

    return bound_j


def book_for(table: ClockTable, solved: Solved, limits: SwitchLimits) -> PriceBook:
    """Prices for limited changes, or for one clock per stage where there may hardly be any and stages can."""
    groups = stage_groups(table.problem.schedule)
    single = most_changes(table.problem, limits, _REACH * float(solved.makespan_s.max())) == 0
    single = single and bool(common_clocks(table, groups, required=False).any(axis=1).all())
    return PriceBook(table, solved.curve, groups if single else None)


def _task(problem: Problem, deadline_s: float, limits: SwitchLimits, times: float = 1.0) -> Task:
    return Task(deadline_s=deadline_s, limits=limits, power_w=problem.static_power_w * times)
