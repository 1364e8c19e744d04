"""The relaxed problem of a whole pipeline in HiGHS, operation by operation, at 20 iteration times.

python -m benchmarks.plain_highs PROFILE STAGES MICROBATCHES
"""

import sys
from pathlib import Path

import numpy as np

from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.graph import build_graph
from energyopt.planner.options import measured_options
from energyopt.planner.problem import build_problem
from energyopt.planner.schedules.registry import build_schedule
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.profile import read_profile

DEADLINES = 20


def main(profile_file: str, stages: str, microbatches: str) -> None:
    """Solve all deadlines, each warm from the one before."""
    profile = read_profile(Path(profile_file))
    schedule = build_schedule(Pipeline(stages=int(stages), microbatches=int(microbatches)))
    table = measured_options(profile, {op.key for op in schedule.ops})
    problem = build_problem(schedule, build_graph(schedule), table, profile.metadata.wait_power_w, 0.0)
    solver = HighsRelaxedSolver(problem)
    last_s, first_s = solver.solve_free().makespan_s, problem.paths.makespan_s(problem.fastest_s)
    for deadline_s in np.linspace(last_s, first_s, DEADLINES)[1:]:
        solver.solve(float(deadline_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
