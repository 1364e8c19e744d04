"""What a solver of the relaxed problem takes and gives."""

from dataclasses import dataclass
from typing import Protocol

from energyopt.planner.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxed:
    """An optimal solution of the relaxed problem; n operations, m dependencies.

    duration_s: [n] durations on the hulls.
    edge_flow_w: [m] dual prices of the dependencies, at least 0.
    sink_flow_w: [n] dual prices of ending by the deadline, 0 for operations that others wait for.
    makespan_s: end of the last operation.
    effective_j: sum of the hulls' effective energies, without static energy.
    """

    duration_s: Floats
    edge_flow_w: Floats
    sink_flow_w: Floats
    makespan_s: float
    effective_j: float


class RelaxedSolver(Protocol):
    """Solves the relaxed problem for one deadline after another."""

    def solve(self, deadline_s: float) -> Relaxed:
        """Least effective energy with every operation finished by `deadline_s`."""

    def solve_free(self) -> Relaxed:
        """Least total energy, effective plus static, at whatever makespan that takes."""
