"""From a problem to plans near its lower bound: trace the curve, fill a pool, choose points, improve them."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.curve import Curve, trace_curve
from energyopt.planner.formulations.aggregated import AggregatedRelaxedSolver
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.formulations.interface import RelaxedSolver
from energyopt.planner.placement import choose_plans, grid_windows, point_windows
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.realisation.pool import Workshop, fill_pool
from energyopt.planner.realisation.population import Population
from energyopt.planner.realisation.rounding import Rounder
from energyopt.planner.realisation.seeds import seed_plans
from energyopt.planner.realisation.variation import Variation
from energyopt.planner.realisation.windows import Judge, Windows
from energyopt.planner.repeats import Repeats, find_repeats

_FEWEST_ANCHORS = 20
SHORT = 1000  # operations up to which the relaxed problem is solved as it stands
_CLASSES = 1200  # classes of operations that are still solved quickly
_LONG = 100_000  # operations from which on every deadline and every plan counts
_FEW_ANCHORS = 8
_KNOWN = 5e-5  # relative error of a long pipeline's bound that is not worth another solution


class Effort(StrEnum):
    """How long to search for plans of measured options; without limits, bounds are the same with all."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The work of a search.

    subdivisions: windows between neighbouring solved deadlines. periods: even plans that it starts from.
    mixtures: plans mixed for each window and round. rounds: of breeding, each with so many active windows and
    children for each; members: plans kept for each window.
    """

    subdivisions: int
    rounds: int
    periods: int = 96
    mixtures: int = 12
    members: int = 16
    children: int = 64
    active: int = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """The curve with a solution at each plan's makespan [P], and the plans: choices [n, P] as in `Schedule.ops`."""

    curve: Curve
    choices: Ints
    makespan_s: Floats


def budget_for(effort: Effort, n_ops: int) -> Budget:
    """Small problems are searched longer, so that time grows less than the number of operations."""
    if n_ops > SHORT:
        return _large_budget(effort, n_ops)
    if effort is Effort.QUICK:
        return Budget(subdivisions=3, rounds=0)
    rounds = 55 if n_ops <= 400 else 80
    return Budget(subdivisions=10, rounds=rounds if effort is Effort.NORMAL else 4 * rounds)


def _large_budget(effort: Effort, n_ops: int) -> Budget:
    """Long pipelines have many microbatches to mix options over: less search does."""
    if n_ops > _LONG:  # whatever the effort: the time goes into sweeping at all
        return Budget(subdivisions=3, rounds=0, periods=8, mixtures=2, members=1, children=1, active=1)
    if effort is Effort.THOROUGH:
        return Budget(subdivisions=5, rounds=50)
    quick = effort is Effort.QUICK
    if n_ops <= 3 * SHORT:
        rounds = 0 if quick else 4
        return Budget(subdivisions=3, rounds=rounds, periods=48, mixtures=6, members=8, children=24)
    rounds = 0 if quick else 10
    return Budget(subdivisions=2, rounds=rounds, periods=48, mixtures=4, members=8, children=16)


def solve_frontier(
    problem: Problem, baseline_s: float, points: int, effort: Effort, progress: Progress
) -> Solved:
    """Find at most `points` plans between the fastest makespan and that of least energy.

    baseline_s is the max-clock baseline's makespan, for which a plan is always among them if it lies between.
    """
    progress("lower-bound curve", 0.0)
    repeats = repeats_of(problem)
    count = _FEW_ANCHORS if problem.n_ops > _LONG else max(points, _FEWEST_ANCHORS)
    if repeats is None:
        curve = trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, count)
    else:
        solver = AggregatedRelaxedSolver(problem, repeats)
        curve = trace_curve(problem, solver, baseline_s, count, solver.twin())
    rounder = Rounder(problem, curve, None if repeats is None else repeats.op_class)
    budget = budget_for(effort, problem.n_ops)
    progress("rounding to measured options", 0.3)
    seeds = seed_plans(problem, rounder, budget.periods, weave=problem.n_ops > SHORT)
    windows = grid_windows(problem, curve, baseline_s, budget.subdivisions)
    plans = search_plans(problem, curve, rounder, seeds, windows, points, budget, progress)
    progress("bounds at the plans' own times", 0.95)
    choices = np.empty((problem.n_ops, plans.shape[1]), dtype=np.int64)
    choices[problem.graph.order] = plans
    makespan_s = problem.paths.makespans_s(_times_s(problem, choices))
    sharpen(problem, curve, makespan_s)
    return Solved(curve=curve, choices=choices, makespan_s=makespan_s)


def sharpen(problem: Problem, curve: Curve, makespan_s: Floats) -> None:
    """Solve at plans' own makespans [P], so that their bounds are as good as can be.

    In long pipelines only where the curve is not known well, and in the longest nowhere.
    """
    if problem.n_ops <= SHORT:
        curve.solve(makespan_s.tolist())
    elif problem.n_ops <= _LONG:
        curve.solve_unknown(makespan_s.tolist(), _KNOWN)


def relaxed_solver(problem: Problem) -> RelaxedSolver:
    """A solver of the problem, or, where it is long, of what repeats in it."""
    repeats = repeats_of(problem)
    return HighsRelaxedSolver(problem) if repeats is None else AggregatedRelaxedSolver(problem, repeats)


def repeats_of(problem: Problem) -> Repeats | None:
    """The classes that a long pipeline's relaxed problem is solved in; None for one that is solved as it stands.

    As many microbatches stand for themselves at either end as it takes to fill the pipeline, and in pipelines that
    are not deep one round more.
    """
    if problem.n_ops <= SHORT:
        return None
    schedule = problem.schedule
    chunks, stages = schedule.chunks_per_stage, schedule.stages
    found = find_repeats(schedule, problem.graph, (chunks + 1) * stages)
    if len(found.ops) <= _CLASSES:
        return found
    return find_repeats(schedule, problem.graph, chunks * stages)


def search_plans(
    problem: Problem,
    curve: Curve,
    rounder: Rounder,
    seeds: tuple[Choices, Floats],
    windows: Windows,
    points: int,
    budget: Budget,
    progress: Progress,
) -> Choices:
    """At most `points` plans [n, P] in topological order, as choices among the options of the rounder's problem.

    seeds: plans [n, W] to begin with, and the makespans that they are meant for, [W]. windows: of iteration time,
    for each of which a plan is looked for; where none is found for any, there are no plans.
    """
    variation = Variation(problem, rounder.sweeper.order)
    workshop = Workshop(rounder=rounder, variation=variation, judge=Judge(curve, problem.static_power_w))
    pool = fill_pool(workshop, windows, seeds, budget.mixtures)
    if not np.isfinite(pool.gap).any():
        return pool.choices[:, :0]
    chosen = choose_plans(pool, workshop.judge, curve, points)
    windows = point_windows(pool, chosen)
    population = Population(workshop, windows, pool, budget.members)
    for number in range(budget.rounds):
        progress("winning back slack", 0.45 + 0.5 * number / budget.rounds)
        population.breed(min(budget.active, len(chosen)), budget.children)
    return population.best().choices


def _times_s(problem: Problem, choices: Ints) -> Floats:
    """Durations of chosen options, [n, P]."""
    time_s = np.empty(choices.shape)
    for index, front in enumerate(problem.fronts):
        ops = problem.front_of == index
        time_s[ops] = front.time_s[choices[ops]]
    return time_s
