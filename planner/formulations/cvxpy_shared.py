"""Shared clocks and limited changes as they are written on paper, in cvxpy: the reference, and the exact problem.

    min  sum_g sum_c e_gc lambda_gc
    s.t. sum_c lambda_gc = 1;  lambda >= 0, or binary for the exact problem
         duration_i = sum_c t_ic lambda_g(i)c;  finish = x + duration
         x_head >= finish_tail + lag;  finish of operations that nothing waits for <= T;  x >= 0
         sum over followers i -> j on a stage of sum_c max(0, lambda_g(j)c - lambda_g(i)c)  <=  K

With binary weights and one operation per group this is the exact choice of clocks with at most K changes.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from energyopt.planner.arrays import Choices, Flags, Floats, Ints
from energyopt.planner.formulations.incidence import incidence, scale_of, selection
from energyopt.planner.limits.clocks import ClockTable
from energyopt.schemas.errors import SolverError

_SOLVER = {"solver": cp.HIGHS, "highs_options": {"threads": 1, "random_seed": 0}}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedReference:
    """The optimum: effective energy in J, weights [G, C], and for binary ones the plan of clock indices [n]."""

    effective_j: float
    weight_GC: Floats  # noqa: N815
    plan: Choices


def solve_shared(
    table: ClockTable,
    group_of: Ints,
    offered: Flags,
    deadline_s: float,
    most_switches: float = np.inf,
    *,
    exact: bool = False,
) -> SharedReference:
    """Least effective energy by the deadline; group_of [n] numbers the groups, offered [G, C] are their clocks.

    Raises:
        SolverError: nothing meets the deadline and the limit, or the solver failed.
    """
    scale = scale_of(table.problem)
    weight = cp.Variable(offered.shape, boolean=exact, nonneg=not exact)
    constraints = [cp.sum(weight, axis=1) == 1, weight <= offered.astype(np.float64)]
    constraints += _in_time(table, group_of, weight, deadline_s)
    if np.isfinite(most_switches):
        of_op = selection(group_of, len(offered)) @ weight
        followers = np.flatnonzero(table.follows)
        constraints.append(cp.sum(cp.pos(of_op[followers + 1] - of_op[followers])) <= most_switches)
    energy_GC = np.zeros(offered.shape)
    np.add.at(energy_GC, group_of, np.where(np.isinf(table.effective_nC), 0.0, table.effective_nC))
    program = cp.Problem(cp.Minimize(cp.sum(cp.multiply(energy_GC / scale.energy_j, weight))), constraints)
    program.solve(**_SOLVER)
    if program.status != cp.OPTIMAL:
        raise SolverError(
            f"the solver found no optimum for shared clocks in {deadline_s:g} s: {program.status}"
        )
    found = np.asarray(weight.value)
    return SharedReference(
        effective_j=float((energy_GC * found).sum()),
        weight_GC=found,
        plan=found.argmax(axis=1)[group_of].astype(np.int16),
    )


def _in_time(table: ClockTable, group_of: Ints, weight: Any, deadline_s: float) -> list[Any]:
    """Dependencies and the deadline."""
    problem = table.problem
    graph, scale = incidence(problem), scale_of(problem)
    time_nC = np.where(np.isinf(table.time_nC), 0.0, table.time_nC) / scale.time_s
    duration = cp.sum(cp.multiply(time_nC, selection(group_of, weight.shape[0]) @ weight), axis=1)
    start = cp.Variable(problem.n_ops, nonneg=True)
    finish = start + duration
    return [
        graph.head @ start >= graph.tail @ finish + problem.graph.lag_s / scale.time_s,
        graph.sinks @ finish <= deadline_s / scale.time_s,
    ]
