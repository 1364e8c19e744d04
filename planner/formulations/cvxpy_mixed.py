"""One operation whose partitions may run at different clocks, in cvxpy: exact discrete choice, nothing relaxed.

    min  sum_i effective_i z_i  +  change_j n
    s.t. sum of the partition's z = 1,  z binary
         n = sum over steps between partitions p and q, as often as they happen,
             of sum over clocks c of max(0, at_pc - at_qc)          at_pc: sum of z of partition p at clock c
         sum over partitions of at_pc <= P - 1  for every clock c: one clock for all is no choice here
         sum_i time_i z_i  +  change_s n <= T

With all z binary the inner sum is 1 where the clocks of p and q differ and 0 where they agree. What one clock for
all gives is known exactly and much more cheaply (`composition.compose`). At a price of time instead of a deadline
every partition takes its cheapest item at whatever clock it gets, and only `at` is left to choose.

The solver's word is not enough: costs are computed anew from what was picked and must agree with its bound.

Legend: I items (a configuration of a partition at a clock), P partitions, C clocks.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import highspy
import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.formulations.highs import SilentHighs
from energyopt.planner.formulations.incidence import selection
from energyopt.schemas.errors import SolverError

_INSIDE = 1e-9  # relative excess over the deadline that is rounding
_ROUNDING = 1e-7  # of the scaled objective, between what was picked and the solver's bound
_HIGHS = {
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-10,
    "primal_feasibility_tolerance": 1e-10,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedProblem:
    """What partitions can run at, and what changing clocks between them costs.

    partition, clock: [I] indices; every partition has an item at every clock. steps: by two partitions, how often
        one follows the other. change_s, change_j: time and effective energy of one change, neither negative.
    """

    partition: Ints
    clock: Ints
    time_s: Floats  # [I]
    effective_j: Floats  # [I]
    steps: Mapping[tuple[int, int], int]
    change_s: float
    change_j: float

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of partitions and clocks."""
        return int(self.partition.max()) + 1, int(self.clock.max()) + 1

    def choice(self, items: Ints) -> "MixedChoice":
        """What an item of each partition, in order of partitions, costs together with the changes between them."""
        clocks = self.clock[items]
        changes = sum(times for (one, other), times in self.steps.items() if clocks[one] != clocks[other])
        return MixedChoice(
            items=tuple(items.tolist()),
            time_s=float(self.time_s[items].sum()) + changes * self.change_s,
            effective_j=float(self.effective_j[items].sum()) + changes * self.change_j,
            changes=changes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedChoice:
    """An item of each partition, in order of partitions, and what they cost together with their changes."""

    items: tuple[int, ...]
    time_s: float
    effective_j: float
    changes: int


class UnprovenError(SolverError):
    """The search for a choice hit its limit: what it found until then is no solution."""


class MixedProgram:
    """The program, built once and solved for many prices and deadlines."""

    def __init__(self, problem: MixedProblem, nodes: int) -> None:
        """nodes: of a search tree, at most: a limit that, unlike time, gives the same results everywhere."""
        self._problem = problem
        self._nodes = nodes
        self._time_s = float(problem.time_s.max())
        self._energy_j = float(np.abs(problem.effective_j).max()) or 1.0
        self._at = cp.Variable(problem.shape, boolean=True)
        self._cost = cp.Parameter(problem.shape)
        self._change = cp.Parameter(nonneg=True)
        priced = cp.sum(cp.multiply(self._cost, self._at)) + self._change * _changes(problem, self._at)
        self._priced = cp.Problem(cp.Minimize(priced), _rules(problem, self._at))
        self._picked = cp.Variable(len(problem.partition), boolean=True)
        self._deadline = cp.Parameter(nonneg=True)
        self._allowed = cp.Parameter(len(problem.partition), nonneg=True)
        self._limited = self._within_deadline()

    def at_price(self, energy_weight: float, time_weight_w: float) -> MixedChoice:
        """The choice of least effective energy x weight + time x weight.

        Raises:
            UnprovenError: the limit was hit.
            SolverError: the check refused the solver's answer.
        """
        problem = self._problem
        cost = energy_weight * problem.effective_j + time_weight_w * problem.time_s
        order = np.lexsort((cost, problem.clock, problem.partition))
        cells = problem.partition[order] * problem.shape[1] + problem.clock[order]
        cheapest = order[np.unique(cells, return_index=True)[1]].reshape(problem.shape)
        lowest = cost[cheapest].min()
        unit = float(np.ptp(cost[cheapest])) or 1.0
        self._cost.value = (cost[cheapest] - lowest) / unit
        self._change.value = (energy_weight * problem.change_j + time_weight_w * problem.change_s) / unit
        self._solve(self._priced, self._nodes)
        at = np.asarray(self._at.value) > 0.5
        choice = problem.choice(cheapest[at])
        value = energy_weight * choice.effective_j + time_weight_w * choice.time_s
        self._check(self._priced, (value - problem.shape[0] * lowest) / unit, at)
        return choice

    def within(
        self, deadline_s: float, allowed: Flags | None = None, nodes: int | None = None
    ) -> MixedChoice | None:
        """The choice of least effective energy that takes at most so long; None where none does.

        allowed: the items to choose from, [I]; all if not given. nodes: another limit than the program's.

        Raises:
            UnprovenError: the limit was hit.
            SolverError: the check refused the solver's answer.
        """
        problem = self._problem
        self._deadline.value = deadline_s / self._time_s
        self._allowed.value = np.ones(len(problem.time_s)) if allowed is None else allowed.astype(np.float64)
        if not self._solve(self._limited, nodes or self._nodes):
            return None
        picked = np.flatnonzero(np.asarray(self._picked.value) > 0.5)
        picked = picked[np.argsort(problem.partition[picked], kind="stable")]
        choice = problem.choice(picked)
        at = np.zeros(problem.shape, dtype=np.bool_)
        at[problem.partition[picked], problem.clock[picked]] = True
        self._check(self._limited, choice.effective_j / self._energy_j, at)
        if choice.time_s > deadline_s * (1 + _INSIDE):
            raise SolverError(f"the solver's choice takes {choice.time_s} s, more than {deadline_s} s")
        return choice

    def _within_deadline(self) -> Any:
        problem = self._problem
        partitions, clocks = problem.shape
        cells = selection(problem.partition * clocks + problem.clock, partitions * clocks).T @ self._picked
        at = cp.reshape(cells, problem.shape, order="C")
        changes = _changes(problem, at)
        time = (problem.time_s / self._time_s) @ self._picked + problem.change_s / self._time_s * changes
        energy = (problem.effective_j / self._energy_j) @ self._picked
        energy += problem.change_j / self._energy_j * changes
        rules = [*_rules(problem, at), self._picked <= self._allowed, time <= self._deadline]
        return cp.Problem(cp.Minimize(energy), rules)

    def _solve(self, program: Any, nodes: int) -> bool:
        """Solve to the end; whether there is a solution. A limit that was hit is neither."""
        try:
            with warnings.catch_warnings(), _silent():
                warnings.filterwarnings("ignore", "Solution may be inaccurate")  # said after a limit
                program.solve(
                    solver=cp.HIGHS,
                    warm_start=False,  # HiGHS 1.16 called the last solution optimal for another deadline
                    highs_options=_HIGHS | {"mip_max_nodes": nodes},
                )
        except cp.SolverError as error:
            raise SolverError(f"the solver failed for partitions at clocks of their own: {error}") from error
        if program.status not in (cp.OPTIMAL, cp.INFEASIBLE, cp.settings.INFEASIBLE_OR_UNBOUNDED):
            raise UnprovenError(
                f"the best clocks of {self._problem.shape[0]} partitions are not proven within {nodes} nodes "
                "of a search tree; profile fewer clocks, or leave out --mixed-clocks"
            )
        return bool(program.status == cp.OPTIMAL)

    def _check(self, program: Any, value: float, at: Any) -> None:
        """Refuse an answer that is none: a clock for every partition, not one for all, and no gap to the bound."""
        if (at.sum(axis=1) != 1).any() or at.all(axis=0).any():
            raise SolverError("the solver's answer does not choose one clock for every partition")
        bound = program.solver_stats.extra_stats.mip_dual_bound
        if value - bound > _ROUNDING * max(1.0, abs(value)):
            raise SolverError(f"the solver's choice costs {value}, more than the {bound} that it proved")


@contextmanager
def _silent() -> Iterator[None]:
    """Let cvxpy make a HiGHS that does not greet on standard output, where data go."""
    talking = highspy.Highs
    highspy.Highs = SilentHighs
    try:
        yield
    finally:
        highspy.Highs = talking


def _rules(problem: MixedProblem, at: Any) -> list[Any]:
    return [cp.sum(at, axis=1) == 1, cp.sum(at, axis=0) <= problem.shape[0] - 1]


def _changes(problem: MixedProblem, at: Any) -> Any:
    """How often the clock changes."""
    return sum(
        (times * cp.sum(cp.pos(at[one] - at[other])) for (one, other), times in problem.steps.items()),
        start=cp.Constant(0),
    )
