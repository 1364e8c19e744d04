"""The exact problem in cvxpy: one of its measured options for every operation, nothing relaxed.

    min  sum_o effective_o z_o
    s.t. sum of the operation's z = 1,  z binary;  finish = x + sum_o time_o z_o
         x_head >= finish_tail + lag,  finish of operations that nothing waits for <= T,  x >= 0

Options are those of the whole Pareto front, not of its hull. There is no big-M, so no choice can hide in one; the
solver's answer is rounded to options and its makespan recomputed before it is believed. For tests and small jobs.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.formulations.incidence import base_effective_j, incidence, scale_of, selection
from energyopt.planner.problem import Problem
from energyopt.schemas.errors import SolverError

_INSIDE = 1e-9  # relative excess over the deadline that is rounding
_TOLERANCE = 1e-10  # of feasibility and integrality, the tightest that HiGHS has
_FEASIBLE = 2  # HiGHS' code for a solution that meets all constraints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exact:
    """The best plan that the solver found, and what it proved.

    choices: [n] indices into each operation's front, operations as in `Schedule.ops`.
    lower_bound_j: no plan within the deadline has less effective energy, says the solver.
    proven: whether the search ended; if not, the time limit cut it short and the plan may not be optimal.
    """

    choices: Ints
    effective_j: float
    makespan_s: float
    lower_bound_j: float
    proven: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class _Columns:
    """Every option of every operation in a row, C in total."""

    owner: Ints  # [C]
    choice: Ints  # [C]
    time_s: Floats  # [C]
    extra_j: Floats  # [C] effective energy beyond that of the fastest option


def solve_exact(problem: Problem, deadline_s: float, time_limit_s: float = math.inf) -> Exact:
    """Choose options of least effective energy with every operation finished by `deadline_s`.

    Raises:
        SolverError: no plan meets the deadline, none was found in time, or the check refused the one found.
    """
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    if not deadline_s >= fastest_s * (1 - _INSIDE):
        raise SolverError(f"no plan finishes in {deadline_s:g} s: the fastest options need {fastest_s:g} s")
    columns = _columns(problem)
    program, picked = _build(problem, columns, deadline_s)
    statistics = _run(program, time_limit_s, f"a deadline of {deadline_s:g} s")
    choices = _choices(problem, columns, np.asarray(picked.value))
    makespan_s = _checked_makespan_s(problem, choices, deadline_s)
    proven_j = statistics.mip_dual_bound * scale_of(problem).energy_j
    return Exact(
        choices=choices,
        effective_j=sum(
            float(problem.fronts[front].effective_j[choice])
            for front, choice in zip(problem.front_of.tolist(), choices.tolist(), strict=True)
        ),
        makespan_s=makespan_s,
        lower_bound_j=base_effective_j(problem) + proven_j,
        proven=program.status == cp.OPTIMAL,
    )


def _columns(problem: Problem) -> _Columns:
    fronts = [problem.fronts[front] for front in problem.front_of]
    counts = [len(front.time_s) for front in fronts]
    return _Columns(
        owner=np.repeat(np.arange(problem.n_ops), counts),
        choice=np.concatenate([np.arange(count) for count in counts]),
        time_s=np.concatenate([front.time_s for front in fronts]),
        extra_j=np.concatenate([front.effective_j - front.effective_j[0] for front in fronts]),
    )


def _build(problem: Problem, columns: _Columns, deadline_s: float) -> tuple[Any, Any]:
    """The program and its binaries."""
    graph, scale = incidence(problem), scale_of(problem)
    picked = cp.Variable(len(columns.owner), boolean=True)
    start = cp.Variable(problem.n_ops, nonneg=True)
    of_op = selection(columns.owner, problem.n_ops).T
    finish = start + (of_op * (columns.time_s / scale.time_s)) @ picked
    constraints = [
        of_op @ picked == 1,
        graph.head @ start >= graph.tail @ finish + problem.graph.lag_s / scale.time_s,
        graph.sinks @ finish <= deadline_s / scale.time_s,
    ]
    return cp.Problem(cp.Minimize((columns.extra_j / scale.energy_j) @ picked), constraints), picked


def _run(program: Any, time_limit_s: float, what: str) -> Any:
    """Solve; return HiGHS' statistics."""
    options = {
        "threads": 1,
        "random_seed": 0,
        "time_limit": time_limit_s,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
    }
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Solution may be inaccurate"
            )  # said after a limit; `proven` tells
            program.solve(solver=cp.HIGHS, highs_options=options)
    except cp.SolverError as error:
        raise SolverError(f"the solver failed for {what}: {error}") from error
    if program.status not in (cp.OPTIMAL, cp.USER_LIMIT):
        raise SolverError(f"the solver found no plan for {what}: {program.status}")
    statistics = program.solver_stats.extra_stats
    if statistics.primal_solution_status != _FEASIBLE:
        raise SolverError(f"the solver found no plan for {what} within {time_limit_s:g} s; allow it more")
    return statistics


def _choices(problem: Problem, columns: _Columns, picked: Floats) -> Ints:
    """The option that each operation took; every operation must have taken exactly one."""
    chosen = np.flatnonzero(picked > 0.5)
    if not np.array_equal(columns.owner[chosen], np.arange(problem.n_ops)):
        raise SolverError("the solver's answer does not choose one option for every operation")
    return columns.choice[chosen]


def _checked_makespan_s(problem: Problem, choices: Ints, deadline_s: float) -> float:
    times_s = [
        problem.fronts[front].time_s[choice]
        for front, choice in zip(problem.front_of.tolist(), choices.tolist(), strict=True)
    ]
    makespan_s = problem.paths.makespan_s(np.array(times_s))
    if makespan_s > deadline_s * (1 + _INSIDE):
        raise SolverError(f"the solver's plan takes {makespan_s} s, more than its deadline of {deadline_s} s")
    return makespan_s
