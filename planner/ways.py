"""Ways to cut the microbatch, planned one by one: forward and backward of a microbatch have to be cut alike.

Bounds are over all ways at once, whichever a plan keeps to: prices from any way's relaxed problem bound the plans
of every other. A way whose own relaxed problem is nowhere better than the plans that are there already is left out,
unless limits on clock changes make those plans worse than they could be.

Legend: F fronts, P plans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.certificate import certify
from energyopt.planner.limits.frontier import limit_plans
from energyopt.planner.limits.limited import Limited
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.points import PaperPlan
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.solve import Effort, Solved, relaxed_solver, solve_frontier
from energyopt.schemas.options import Option

_LOOKS = 5  # iteration times at which a way is solved to see whether it can be better anywhere
_PLACES = 400  # iteration times at which its bound is then compared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WayPlans:
    """What was found in one way; `limited` where the limits on clock changes made other plans necessary."""

    problem: Problem
    solved: Solved
    limited: Limited | None

    @property
    def found(self) -> Solved | Limited:
        """Where the plans are."""
        return self.solved if self.limited is None else self.limited

    @property
    def options(self) -> list[tuple[Option, ...]]:
        """What the plans' choices are among, by front."""
        if self.limited is None:
            return [front.options for front in self.problem.fronts]
        return list(self.problem.measured)

    def bound_j(self, makespan_s: float) -> float:
        """The bound that this way's prices prove for plans of any way."""
        return (self.solved.curve if self.limited is None else self.limited).bound_j(makespan_s)

    def kept(self, which: Flags) -> "WayPlans":
        """The same with some of the plans alone, [P]."""
        found = replace(
            self.found, choices=self.found.choices[:, which], makespan_s=self.found.makespan_s[which]
        )
        if isinstance(found, Solved):
            return replace(self, solved=found)
        return replace(self, limited=found)

    def plans(self, places: Sequence[Ints], bound_j: Callable[[float], float]) -> list[PaperPlan]:
        """The plans; places: of each front, where its options are in the frontier's list of them."""
        found = self.found
        fronts, options = self.problem.front_of.tolist(), self.options
        begin = np.cumsum([0, *(len(own) for own in places[:-1])])[self.problem.front_of]
        place = np.concatenate(places)
        return [
            PaperPlan(
                options=[
                    options[front][choice] for front, choice in zip(fronts, choices.tolist(), strict=True)
                ],
                choices=tuple(place[begin + choices].tolist()),
                makespan_s=makespan_s,
                bound_j=bound_j,
            )
            for choices, makespan_s in zip(found.choices.T, found.makespan_s.tolist(), strict=True)
        ]

    def own_plans(self) -> list[PaperPlan]:
        """The plans with this way's own options and bound."""
        return self.plans([np.arange(len(options)) for options in self.options], self.bound_j)


def plan_ways(
    problems: Sequence[Problem],
    baseline_s: float,
    points: int,
    effort: Effort,
    limits: SwitchLimits | None,
    progress: Progress,
) -> list[WayPlans]:
    """Plans of every way that can be better than the others somewhere, the most promising way first."""
    ranked = sorted(problems, key=_least_j) if len(problems) > 1 else list(problems)
    found: list[WayPlans] = []
    for problem in ranked:
        if found and found[0].limited is None and not _may_be_better(problem, found[0]):
            continue
        solved = solve_frontier(problem, baseline_s, points, effort, progress)
        limited = None if limits is None else limit_plans(problem, solved, limits, effort, progress)
        found.append(WayPlans(problem=problem, solved=solved, limited=limited))
    return found


def joint_options(ways: Sequence[WayPlans]) -> tuple[list[tuple[Option, ...]], list[list[Ints]]]:
    """The options of all ways, each once, by front, and where each way's own are among them."""
    joint: list[dict[Option, int]] = [{} for _ in ways[0].problem.fronts]
    places = [
        [
            np.array([known.setdefault(option, len(known)) for option in own], dtype=np.int64)
            for known, own in zip(joint, way.options, strict=True)
        ]
        for way in ways
    ]
    return [tuple(known) for known in joint], places


def _least_j(problem: Problem) -> float:
    """The least relaxed energy of plans of this way, with static energy."""
    relaxed = relaxed_solver(problem).solve_free()
    return relaxed.effective_j + problem.static_power_w * relaxed.makespan_s


def _may_be_better(problem: Problem, best: WayPlans) -> bool:
    """Whether the way's relaxed energy lies below the plans that are there, at any iteration time."""
    own = replace(problem, measured=tuple(front.options for front in problem.fronts))
    solver, static_w = relaxed_solver(own), problem.static_power_w
    free = solver.solve_free()
    fastest_s = problem.paths.makespan_s(problem.fastest_s)
    deadlines_s = np.linspace(fastest_s, max(free.makespan_s, fastest_s), _LOOKS)
    relaxed = [free, *(solver.solve(deadline_s) for deadline_s in deadlines_s[:-1].tolist())]
    lines = [certify(own, one.edge_flow_w, one.sink_flow_w) for one in relaxed]
    places_s = np.linspace(fastest_s, max(float(best.solved.makespan_s.max()), deadlines_s[-1]), _PLACES)
    bound_j = np.max([line.intercept_j + (line.slope_w + static_w) * places_s for line in lines], axis=0)
    return bool((bound_j < _best_j(best, places_s)).any())


def _best_j(way: WayPlans, places_s: Floats) -> Floats:
    """The energy of the cheapest plan of at most each makespan; infinite before the fastest."""
    problem, plans = way.problem, way.solved
    effective_j = np.zeros(len(plans.makespan_s))
    for index, front in enumerate(problem.fronts):
        effective_j += front.effective_j[plans.choices[problem.front_of == index]].sum(axis=0)
    order = np.argsort(plans.makespan_s, kind="stable")
    total_j = np.minimum.accumulate((effective_j + problem.static_power_w * plans.makespan_s)[order])
    place = np.searchsorted(plans.makespan_s[order], places_s, side="right") - 1
    return np.where(place < 0, np.inf, total_j[np.maximum(place, 0)])
