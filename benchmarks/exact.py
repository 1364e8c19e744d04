"""How much is left: an exact search (MILP) with a time limit at the max-clock baseline's own time."""

import time

from benchmarks.bounds import bounds_j, problem_of
from benchmarks.recompute import max_clock_cost
from benchmarks.registry import Benchmark, Settings, UnavailableError
from benchmarks.workloads import Workload, workloads
from energyopt.planner.frontier import plan_frontier
from energyopt.planner.tables import Table
from energyopt.schemas.errors import SolverError

MICROBATCHES = (12,)
POINTS = 20
TIME_LIMIT_S = 60.0

COLUMNS = ("profile", "microbatches", "exact s", "proven", "best found %", "proven bound %", "our plan %")


def run(settings: Settings) -> Table:
    microbatches = settings.microbatches or ((2,) if settings.smoke else MICROBATCHES)
    limit_s = settings.time_limit_s or TIME_LIMIT_S
    rows = tuple(_row(settings, one, count, limit_s) for one in workloads(settings) for count in microbatches)
    title = f"energy above the LP bound at the max-clock baseline's time; at most {limit_s:g} s of search"
    return Table(title=title, columns=COLUMNS, rows=rows)


def _row(settings: Settings, workload: Workload, microbatches: int, limit_s: float) -> tuple[str, ...]:
    from energyopt.planner.formulations.cvxpy_milp import solve_exact

    problem = problem_of(workload, microbatches)
    deadline_s = max_clock_cost(workload.profile, problem.schedule).time_s
    static_j = problem.static_power_w * deadline_s
    (relaxed_j,) = bounds_j(problem, [deadline_s])
    began_s = time.perf_counter()
    try:
        exact = solve_exact(problem, deadline_s, limit_s)
    except SolverError as error:
        raise UnavailableError(str(error)) from error
    took_s = time.perf_counter() - began_s
    plan_j = _our_plan_j(settings, workload, microbatches)
    energies_j = (exact.effective_j + static_j, exact.lower_bound_j + static_j, plan_j)
    cells = [f"{(energy_j / relaxed_j - 1) * 100:.3f}" for energy_j in energies_j]
    proven = "yes" if exact.proven else "no"
    return (workload.name, str(microbatches), f"{took_s:.1f}", proven, *cells)


def _our_plan_j(settings: Settings, workload: Workload, microbatches: int) -> float:
    """Energy of our plan within the baseline's time, out of a frontier of the usual size."""
    frontier = plan_frontier(
        workload.profile,
        workload.pipeline(microbatches),
        workload.schedule(microbatches),
        points=4 if settings.smoke else POINTS,
    )
    return next(one.energy_j for one in frontier.points if "max_clock_time" in one.names)


BENCHMARK = Benchmark(
    name="exact",
    shows="what an exact search finds and proves in a given time, beside our plan",
    run=run,
    by_default=False,
)
