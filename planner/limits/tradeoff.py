"""What fewer clock changes cost: plans at a few iteration times, from as many changes as wanted down to none.

Every plan is run by the simulator, and stands beside the bound on all plans of its kind.

Legend: n operations as in `Schedule.ops`.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Choices, Ints
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.groups import common_clocks, stage_groups, steady_groups
from energyopt.planner.limits.plans import grouped_plan, limited_plan
from energyopt.planner.limits.prices import PriceBook
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.limits.search import Referee, Task
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.simulation import iteration_energy_j, simulate
from energyopt.planner.solve import Solved
from energyopt.schemas.plan import Baseline

SLOWDOWNS = (1.0, 1.02, 1.05, 1.1)
FREE = "free"
STEADY = "one clock per stage in the steady state"
SINGLE = "one clock per stage"
_WORKERS = 2
_SHARES = (1 / 3, 1 / 10)  # of the free plan's changes
_PER_STAGE = (4, 1)  # changes per stage
_GUIDES = 3  # sets of prices that a plan is searched by
_NEAR = 4  # free plans that limited ones are searched from


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """What plans of a row have in common: at most so many changes, or groups [n] that share a clock, or nothing."""

    name: str
    max_switches: int | None = None
    group_of: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffPoint:
    """One plan, or the lack of one (then all numbers are None). Energies cover all GPUs for one iteration.

    slowdown: the deadline as a multiple of the max-clock baseline's time. max_switches: the limit, None where
    changes are not limited. lower_bound_j: of all plans of this kind and time. saving: against the max-clock
    baseline. above_free: energy over that of the free plan of the same slowdown, less 1.
    """

    slowdown: float
    kind: str
    max_switches: int | None
    clock_switches: int | None = None
    iteration_time_s: float | None = None
    energy_j: float | None = None
    lower_bound_j: float | None = None
    gap: float | None = None
    saving: float | None = None
    above_free: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """All plans, by slowdown and then by fewer and fewer changes."""

    gpus: int
    max_clock: Baseline
    min_dwell_s: float
    points: tuple[TradeoffPoint, ...]


def weigh(
    problem: Problem,
    solved: Solved,
    max_clock: Baseline,
    gpus_per_stage: int,
    min_dwell_s: float,
    progress: Progress,
) -> Tradeoff:
    """The trade-off of a job whose free frontier is solved; max_clock is the baseline of all its GPUs."""
    weighing = _Weighing(problem, solved, max_clock, gpus_per_stage, min_dwell_s)
    progress("clock changes at the baseline's time and above", 0.96)
    deadlines_s = [slowdown * max_clock.iteration_time_s - problem.fixed_time_s for slowdown in SLOWDOWNS]
    solved.curve.solve(deadlines_s)
    with ThreadPoolExecutor(_WORKERS) as pool:
        points = [row for rows in pool.map(weighing.at, SLOWDOWNS) for row in rows]
    return Tradeoff(
        gpus=problem.schedule.stages * gpus_per_stage,
        max_clock=max_clock,
        min_dwell_s=min_dwell_s,
        points=tuple(points),
    )


class _Weighing:
    def __init__(
        self, problem: Problem, solved: Solved, max_clock: Baseline, gpus_per_stage: int, min_dwell_s: float
    ) -> None:
        self._problem, self._solved, self._max_clock = problem, solved, max_clock
        self._gpus_per_stage, self._min_dwell_s = gpus_per_stage, min_dwell_s
        self._table = clock_table(problem)
        self._referee = Referee(self._table)
        self._free = self._table.of_options(solved.choices)

    def at(self, slowdown: float) -> list[TradeoffPoint]:
        """The rows of one slowdown, free first."""
        deadline_s = slowdown * self._max_clock.iteration_time_s - self._problem.fixed_time_s
        book = PriceBook(self._table, self._solved.curve)
        book.borrow_free(deadline_s, np.inf)
        known = self._near(deadline_s)
        found = limited_plan(self._referee, self._task(deadline_s, None), book.entries, known)
        free = None if found is None else found.plan
        first = self._row(slowdown, Kind(name=FREE), free, book)
        if free is None or first.clock_switches is None:
            return [first]
        rows = self._limited(slowdown, deadline_s, first.clock_switches, np.column_stack((free, known)))
        return [_beside(first, row) for row in (first, *rows)]

    def _limited(
        self, slowdown: float, deadline_s: float, free_switches: int, known: Choices
    ) -> list[TradeoffPoint]:
        """The rows below the free one, falling; plans of fewer changes are tried where more are allowed."""
        limits = self._limits(free_switches)
        book = PriceBook(self._table, self._solved.curve)
        book.solve([(deadline_s, float(limit)) for limit in limits[1:3]])
        rows: list[TradeoffPoint] = []
        for kind in self._groups():
            plan, own = self._grouped(deadline_s, kind)
            rows.append(self._row(slowdown, kind, plan, own))
            known = known if plan is None else np.column_stack((plan, known))
        for limit in reversed(limits):
            book.borrow_free(deadline_s, limit)
            kind = Kind(name=f"at most {limit} changes", max_switches=limit)
            guides = book.guides(deadline_s, limit, _GUIDES)
            found = limited_plan(self._referee, self._task(deadline_s, limit), guides, known)
            rows.append(self._row(slowdown, kind, None if found is None else found.plan, book))
            known = known if found is None else np.column_stack((found.plan, known))
        return rows[::-1]

    def _grouped(self, deadline_s: float, kind: Kind) -> tuple[Choices | None, PriceBook]:
        """A plan whose groups share clocks, and the prices that bound such plans."""
        book = PriceBook(self._table, self._solved.curve, kind.group_of)
        book.solve([(deadline_s, np.inf)])
        if kind.group_of is None or not book.entries:
            return None, book
        found = grouped_plan(self._referee, self._task(deadline_s, None), kind.group_of, book.entries)
        return None if found is None else found.plan, book

    def _limits(self, free_switches: int) -> list[int]:
        """Numbers of changes below those of the free plan, falling."""
        stages = self._problem.schedule.stages
        wished = [*(int(share * free_switches) for share in _SHARES), *(each * stages for each in _PER_STAGE)]
        return sorted({one for one in wished if 0 < one < free_switches}, reverse=True)

    def _groups(self) -> list[Kind]:
        """The groups that have clocks in common; a short pipeline has no steady state."""
        schedule = self._problem.schedule
        single, steady = stage_groups(schedule), steady_groups(schedule)
        kinds = [Kind(name=SINGLE, max_switches=0, group_of=single), Kind(name=STEADY, group_of=steady)]
        if int(steady.max()) + 1 == self._problem.n_ops:
            del kinds[1]
        return [
            kind
            for kind in kinds
            if kind.group_of is not None
            and common_clocks(self._table, kind.group_of, required=False).any(axis=1).all()
        ]

    def _near(self, deadline_s: float) -> Choices:
        """The free plans that end nearest to a deadline, [n, W]."""
        nearest = np.argsort(np.abs(self._solved.makespan_s - deadline_s), kind="stable")[:_NEAR]
        return self._free[:, nearest]

    def _task(self, deadline_s: float, max_switches: int | None) -> Task:
        limits = SwitchLimits(max_switches=max_switches, min_dwell_s=self._min_dwell_s)
        return Task(deadline_s=deadline_s, limits=limits, power_w=self._problem.static_power_w)

    def _row(self, slowdown: float, kind: Kind, plan: Choices | None, book: PriceBook) -> TradeoffPoint:
        """Run a plan through the simulator, and put the bound of its kind beside it."""
        empty = TradeoffPoint(slowdown=slowdown, kind=kind.name, max_switches=kind.max_switches)
        if plan is None:
            return empty
        problem = self._problem
        ops = np.arange(problem.n_ops)
        time_s, effective_j = (array[ops, plan] for array in (self._table.time_nC, self._table.effective_nC))
        drawn_j = (effective_j + problem.wait_power_w * time_s).tolist()
        p2p_s = float(problem.graph.lag_s.max(initial=0.0))
        timeline = simulate(problem.schedule, time_s.tolist(), p2p_s, problem.fixed_time_s)
        total_s = timeline.iteration_time_s
        energy_j = iteration_energy_j(
            timeline, time_s.tolist(), drawn_j, problem.wait_power_w, problem.schedule.stages
        )
        switches = np.inf if kind.max_switches is None or kind.group_of is not None else kind.max_switches
        bound_j = book.bound_j(total_s - problem.fixed_time_s, switches)
        bound_j += problem.static_power_w * problem.fixed_time_s
        return replace(
            empty,
            clock_switches=int(self._table.switches(plan[:, None])[0]),
            iteration_time_s=total_s,
            energy_j=energy_j * self._gpus_per_stage,
            lower_bound_j=bound_j * self._gpus_per_stage,
            gap=energy_j / bound_j - 1,
            saving=1 - energy_j * self._gpus_per_stage / self._max_clock.energy_j,
        )


def _beside(free: TradeoffPoint, row: TradeoffPoint) -> TradeoffPoint:
    """The row with its energy related to the free one's."""
    if row.energy_j is None or free.energy_j is None:
        return row
    return replace(row, above_free=row.energy_j / free.energy_j - 1)
