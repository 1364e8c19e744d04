"""What the cvxpy formulations share: the graph as sparse matrices, and units that suit a solver.

Legend: n operations, m dependencies, e operations that nothing waits for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyopt.planner.arrays import Floats, Ints
from energyopt.planner.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Incidence:
    """Selection matrices: one row per dependency or sink, a single 1 in the column of its operation.

    head [m, n] picks the operation that waits, tail [m, n] the one that it waits for, sinks [e, n] those that
    nothing waits for; `sink_ops` [e] are their indices.
    """

    head: Any
    tail: Any
    sinks: Any
    sink_ops: Ints


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Times are divided by `time_s` and energies by `energy_j`, so that tolerances mean the same everywhere."""

    time_s: float
    energy_j: float

    @property
    def power_w(self) -> float:
        """The unit of prices."""
        return self.energy_j / self.time_s


def incidence(problem: Problem) -> Incidence:
    """The dependencies of a problem as sparse matrices."""
    graph, n = problem.graph, problem.n_ops
    sink_ops = np.setdiff1d(np.arange(n), graph.tail)
    return Incidence(
        head=selection(graph.head, n),
        tail=selection(graph.tail, n),
        sinks=selection(sink_ops, n),
        sink_ops=sink_ops,
    )


def selection(columns: NDArray[np.integer[Any]], n: int) -> Any:
    """The sparse matrix whose row r holds a 1 in `columns[r]`, [len(columns), n]."""
    import scipy.sparse as sp  # type: ignore[import-untyped]  # loaded here: it takes a third of a second

    rows = np.arange(len(columns))
    return sp.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(columns), n))


def scale_of(problem: Problem) -> Scale:
    """The fastest makespan, and the larger of what options can save and what waiting costs over it."""
    time_s = problem.paths.makespan_s(problem.fastest_s)
    saving_j = base_effective_j(problem) - float(
        per_op(problem, [front.effective_j[-1] for front in problem.fronts]).sum()
    )
    return Scale(time_s=time_s, energy_j=max(saving_j, problem.static_power_w * time_s) or 1.0)


def base_effective_j(problem: Problem) -> float:
    """Effective energy with every operation at its fastest."""
    return float(per_op(problem, [front.effective_j[0] for front in problem.fronts]).sum())


def per_op(problem: Problem, of_fronts: list[float]) -> Floats:
    """A value of each operation's front, [n]."""
    return np.array(of_fronts, dtype=np.float64)[problem.front_of]
