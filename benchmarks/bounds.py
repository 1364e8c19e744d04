"""Certified lower bounds on the energy of an iteration, at any iteration times."""

from collections.abc import Sequence

from benchmarks.workloads import Workload
from energyopt.planner.curve import Curve
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.graph import build_graph
from energyopt.planner.options import measured_options
from energyopt.planner.problem import Problem, build_problem


def problem_of(workload: Workload, microbatches: int) -> Problem:
    """The planning problem of a job."""
    schedule = workload.schedule(microbatches)
    table = measured_options(workload.profile, {op.key for op in schedule.ops})
    return build_problem(schedule, build_graph(schedule), table, workload.wait_power_w, 0.0)


def bounds_j(problem: Problem, times_s: Sequence[float]) -> list[float]:
    """The bound at each time, which is solved for on its own; static energy included."""
    curve = Curve(problem, HighsRelaxedSolver(problem))
    curve.solve(times_s)
    return [curve.bound_j(time_s) for time_s in times_s]
