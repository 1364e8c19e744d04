"""Plans whose peak power keeps to a cap.

The relaxed problem knows no peaks. So the plans found without a cap are mended (`mending`) until their simulated
peaks obey. Where that is not enough, because limits on clock changes bind or nothing obeys yet, operations are
restricted to options of at most q watts, for a few q, and planned with again: the lower q, the lower the peak and
the longer the iteration, so that bisection closes in on the highest q whose fastest plan obeys. An operation whose
options all draw more keeps its thriftiest one, so that there are always plans.

This is a search: the plans obey, but a faster one may exist. The bounds beside them are those of the unrestricted
problem, which hold for every plan.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from energyopt.planner.power.floor import floor_w
from energyopt.planner.power.thrift import levels_w, restricted
from energyopt.planner.power.trials import Court, Trial
from energyopt.planner.problem import Problem
from energyopt.planner.progress import Progress
from energyopt.planner.solve import Effort
from energyopt.planner.ways import WayPlans
from energyopt.schemas.errors import RequestError

Planner = Callable[[Sequence[Problem], Effort], list[WayPlans]]
"""Plans for the problems of a job, one for each way to cut the microbatch."""

_STEPS = 6  # of the bisection


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CapSearch:
    """Looks for the plans of one job that keep to a cap.

    problems: the unrestricted ones, one for each way; effort: that of the last, decisive plans; plan: how the job
    was planned without the cap.
    """

    problems: Sequence[Problem]
    court: Court
    effort: Effort
    plan: Planner

    def run(self, free: Sequence[WayPlans], progress: Progress) -> list[WayPlans]:
        """All plans found that obey; those of `free`, found without the cap, first.

        Raises:
            RequestError: none was found; names the least peak found and a floor that is proven.
        """
        progress("keeping to the peak-power cap", 0.0)
        trials = [self.court.judged(way) for way in free]
        kept = [way for trial in trials for way in (*trial.obeying(), *self.court.mended(trial))]
        limited = any(way.limited is not None for way in free) and not all(one.obeys.all() for one in trials)
        if limited or not kept:
            for found in self._restricted(progress):
                trials += found
                kept += [way for trial in found for way in (*trial.obeying(), *self.court.mended(trial))]
        if not kept:
            self._refuse(min(float(trial.peak_w.min()) for trial in trials))
        return kept

    def _restricted(self, progress: Progress) -> Iterator[list[Trial]]:
        """Plans of options of little power: bisection, and the levels between which the fastest ceases to obey."""
        levels = levels_w(self.court.offer)
        low, high = 0, len(levels) - 1
        level = self._guess(levels)
        for step in range(_STEPS):
            progress("plans of less power", (step + 1) / (_STEPS + 3))
            yield (found := self._planned(levels[level], Effort.QUICK))
            low, high = (level, high) if _fastest_obeys(found) else (low, level)
            if high - low <= 1:
                break
            level = (low + high) // 2
        if self.effort is not Effort.QUICK:
            yield self._planned(levels[low], self.effort)
            yield self._planned(levels[high], self.effort)

    def _guess(self, levels: list[float]) -> int:
        """The highest level at which everything at its fastest obeys; the first where none does."""
        low, high = 0, len(levels) - 1
        while high - low > 1:
            middle = (low + high) // 2
            problem = restricted(self.problems[0], self.court.offer, levels[middle])
            fastest = [problem.fronts[front].options[0] for front in problem.front_of.tolist()]
            obeys = self.court.rule.obeys(self.court.peak_w(problem, fastest))
            low, high = (middle, high) if obeys else (low, middle)
        return low

    def _planned(self, level_w: float, effort: Effort) -> list[Trial]:
        """Plans of options of at most a level; none where limits on clock changes allow none."""
        problems = [restricted(problem, self.court.offer, level_w) for problem in self.problems]
        try:
            return [self.court.judged(way) for way in self.plan(problems, effort)]
        except RequestError:
            return []

    def _refuse(self, least_w: float) -> NoReturn:
        court, problem = self.court, self.problems[0]
        floor = floor_w(problem, court.rule.lasts_s) * court.gpus_per_stage
        raise RequestError(
            f"no plan found keeps {problem.schedule.stages * court.gpus_per_stage} GPU(s) at "
            f"{court.rule.cap_w:g} W or less: the least peak found is {_up(least_w)} W, and none can stay below "
            f"{floor:.1f} W; "
            "raise --peak-power-cap-w, or profile lower clocks"
        )


def _fastest_obeys(found: Sequence[Trial]) -> bool:
    return bool(found) and not min(trial.fastest_s for trial in found)[1]


def _up(power_w: float) -> str:
    """A power rounded up to 0.1 W, so that asking for what is printed succeeds."""
    return f"{math.ceil(power_w * 10) / 10:.1f}"
