"""Making a plan keep to a cap: where it draws too much, operations step down to options of less power.

Each round finds when the plan draws too much, and lowers operations that run then, one step each, those first that
cost the iteration least time for the power they give up: operations with slack cost none. Rounds go on until the
plan obeys. `hasten` goes the other way: critical operations step up where there is room below the cap.

Legend: n operations as in `Schedule.ops`, k steps of the power over time.
"""

from dataclasses import dataclass

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.power.ladders import Ladders
from energyopt.planner.power.over_time import Loads, PowerOverTime
from energyopt.planner.problem import Problem

_ROUNDS = 60  # of lowering; a round lowers every overload of the iteration by a step or more
_HASTENED = 12  # rounds of raising and lowering again
_SAME_TIME = 1e-9  # of an iteration: times that differ by rounding alone
_SOME = 1e-3  # what time that the iteration has to spare costs, against time that it has not


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mended:
    """A plan that obeys: its options as places in the ladders [n], and its makespan."""

    places: Ints
    makespan_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """A plan's course; each operation runs during steps `first` to `end` - 1 of the power of one GPU per stage."""

    power: PowerOverTime
    first: Ints  # [n]
    end: Ints  # [n]
    slack_s: Floats  # [n]
    makespan_s: float


class Mender:
    """Mends plans of one problem.

    cap_w: of one GPU on every stage together; lasts_s: see `PowerOverTime.peak_w`.
    """

    def __init__(self, problem: Problem, ladders: Ladders, cap_w: float, lasts_s: float) -> None:
        self._problem, self._ladders = problem, ladders
        self._cap_w, self._lasts_s = cap_w, lasts_s
        sizes = [len(order) for order in problem.schedule.orders]
        self._stage_of = np.repeat(np.arange(problem.schedule.stages), sizes)

    def mend(self, places: Ints) -> Mended | None:
        """The plan with operations lowered until it obeys; None where no step is left that helps."""
        for _ in range(_ROUNDS):
            run = self._run(places)
            over = run.power.beyond(self._cap_w, self._lasts_s)
            if not over.any():
                return Mended(places=places, makespan_s=run.makespan_s)
            lowered = self._lowered(places, run, over)
            if lowered is None:
                return None
            places = lowered
        return None

    def hasten(self, plan: Mended) -> Mended:
        """A plan that obeys and is faster, where raising its critical operations gives one."""
        for _ in range(_HASTENED):
            found = self.mend(self._raised(plan.places))
            if found is None or found.makespan_s >= plan.makespan_s * (1 - _SAME_TIME):
                break
            plan = found
        return plan

    def _run(self, places: Ints) -> _Run:
        problem, ladders = self._problem, self._ladders
        time_s = ladders.time_s[places]
        finish_s = problem.paths.earliest_finish_s(time_s)
        makespan_s = float(finish_s.max())
        loads = Loads(
            start_s=finish_s - time_s,
            finish_s=finish_s,
            beyond_w=ladders.power_w[places] - problem.wait_power_w,
            stage_of=self._stage_of,
            stages=problem.schedule.stages,
            wait_power_w=problem.wait_power_w,
            iteration_time_s=makespan_s + problem.fixed_time_s,
        )
        latest_s = problem.paths.latest_finishes_s(time_s[:, None], np.array([makespan_s]))
        power, same_s = loads.of_pipeline(1), _SAME_TIME * makespan_s
        return _Run(
            power=power,
            first=np.searchsorted(power.edge_s, loads.start_s + same_s, side="right") - 1,
            end=np.searchsorted(power.edge_s, loads.finish_s - same_s, side="left"),
            slack_s=latest_s[:, 0] - loads.finish_s,
            makespan_s=makespan_s,
        )

    def _lowered(self, places: Ints, run: _Run, over: Flags) -> Ints | None:
        """The plan with operations one step down, as many as overloads need; None where no step is left."""
        ladders = self._ladders
        down = ladders.down[places]
        longer_s, less_w = (
            ladders.time_s[down] - ladders.time_s[places],
            ladders.power_w[places] - ladders.power_w[down],
        )
        cost = np.maximum(longer_s - run.slack_s, 0.0) + _SOME * longer_s
        before = np.concatenate(([0], np.cumsum(over)))
        able = np.flatnonzero((down >= 0) & (before[run.end] > before[run.first]))
        excess_w = np.where(over, run.power.power_w - self._cap_w, 0.0)
        lowered = places.copy()
        for op in able[np.argsort(cost[able] / less_w[able], kind="stable")].tolist():
            span = slice(run.first[op], run.end[op])
            if (excess_w[span] > 0).any():
                excess_w[span] -= less_w[op]
                lowered[op] = down[op]
        return lowered if len(able) else None

    def _raised(self, places: Ints) -> Ints:
        """The plan with critical operations as many steps up as there is room for below the cap."""
        run, ladders = self._run(places), self._ladders
        room_w = self._cap_w - run.power.power_w
        raised = places.copy()
        for op in np.flatnonzero(run.slack_s <= _SAME_TIME * run.makespan_s).tolist():
            span = slice(run.first[op], run.end[op])
            while (up := ladders.up[raised[op]]) >= 0:
                more_w = ladders.power_w[up] - ladders.power_w[raised[op]]
                if more_w > room_w[span].min():
                    break
                room_w[span] -= more_w
                raised[op] = up
        return raised
