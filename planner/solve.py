"""From a problem to plans near its lower bound: trace the curve, fill a pool, choose points, improve them."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.curve import Curve, trace_curve
from energyopt.planner.formulations.highs import HighsRelaxedSolver
from energyopt.planner.placement import choose_plans, grid_windows, point_windows
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.realisation.pool import Workshop, fill_pool
from energyopt.planner.realisation.population import Population
from energyopt.planner.realisation.rounding import Rounder
from energyopt.planner.realisation.seeds import seed_plans
from energyopt.planner.realisation.variation import Variation
from energyopt.planner.realisation.windows import Judge

_FEWEST_ANCHORS = 20
_SEED_PERIODS = 96
_MIXTURES = 12  # plans mixed for each window and round
_MEMBERS, _CHILDREN, _ACTIVE = 16, 64, 6


class Effort(StrEnum):
    """How long to search for plans of measured options; bounds are exact with either."""

    QUICK = "quick"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The work of a search: windows between neighbouring solved deadlines, and rounds of breeding."""

    subdivisions: int
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """The curve with a solution at each plan's makespan [P], and the plans: choices [n, P] as in `Schedule.ops`."""

    curve: Curve
    choices: Ints
    makespan_s: Floats


def budget_for(effort: Effort, n_ops: int) -> Budget:
    """Small problems are searched longer, so that time grows less than the number of operations."""
    if effort is Effort.QUICK:
        return Budget(subdivisions=3, rounds=0)
    if n_ops <= 400:
        return Budget(subdivisions=10, rounds=55)
    if n_ops <= 1000:
        return Budget(subdivisions=10, rounds=80)
    return Budget(subdivisions=5, rounds=50)


def solve_frontier(
    problem: Problem, baseline_s: float, points: int, effort: Effort, progress: Progress
) -> Solved:
    """Find at most `points` plans between the fastest makespan and that of least energy.

    baseline_s is the max-clock baseline's makespan, for which a plan is always among them if it lies between.
    """
    progress("lower-bound curve", 0.0)
    curve = trace_curve(problem, HighsRelaxedSolver(problem), baseline_s, max(points, _FEWEST_ANCHORS))
    plans = _search(problem, curve, baseline_s, points, budget_for(effort, problem.n_ops), progress)
    progress("bounds at the plans' own times", 0.95)
    choices = np.empty((problem.n_ops, plans.shape[1]), dtype=np.int64)
    choices[problem.graph.order] = plans
    makespan_s = problem.paths.makespans_s(_times_s(problem, choices))
    curve.solve(makespan_s.tolist())
    return Solved(curve=curve, choices=choices, makespan_s=makespan_s)


def _search(
    problem: Problem, curve: Curve, baseline_s: float, points: int, budget: Budget, progress: Progress
) -> Choices:
    """Plans [n, P] in topological order."""
    rounder = Rounder(problem, curve)
    variation = Variation(problem, rounder.sweeper.order)
    workshop = Workshop(rounder=rounder, variation=variation, judge=Judge(curve, problem.static_power_w))
    progress("rounding to measured options", 0.3)
    seeds = seed_plans(problem, rounder, _SEED_PERIODS)
    windows = grid_windows(problem, curve, baseline_s, budget.subdivisions)
    pool = fill_pool(workshop, windows, seeds, _MIXTURES)
    chosen = choose_plans(pool, workshop.judge, curve, points)
    windows = point_windows(pool, chosen)
    population = Population(workshop, windows, pool, _MEMBERS)
    for number in range(budget.rounds):
        progress("winning back slack", 0.45 + 0.5 * number / budget.rounds)
        population.breed(min(_ACTIVE, len(chosen)), _CHILDREN)
    return population.best().choices


def _times_s(problem: Problem, choices: Ints) -> Floats:
    """Durations of chosen options, [n, P]."""
    time_s = np.empty(choices.shape)
    for index, front in enumerate(problem.fronts):
        ops = problem.front_of == index
        time_s[ops] = front.time_s[choices[ops]]
    return time_s
