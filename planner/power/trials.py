"""Plans of one way, judged by their peaks, and mended where they exceed the cap.

Legend: n operations as in `Schedule.ops`, P plans.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Flags, Floats, Ints
from energyopt.planner.composition.table import Offer
from energyopt.planner.limits.clocks import clock_table
from energyopt.planner.limits.dwell import shortest_dwell_s
from energyopt.planner.limits.limited import Limited
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.power.ladders import ladders
from energyopt.planner.power.mending import Mended, Mender
from energyopt.planner.power.over_time import loads_of
from energyopt.planner.power.rule import PeakRule
from energyopt.planner.problem import Problem
from energyopt.planner.simulation import Timeline, simulate
from energyopt.planner.ways import WayPlans
from energyopt.schemas.options import Option
from energyopt.schemas.pipeline import Pipeline

_MENDED_OPS, _FEWEST_MENDED = 1_000_000, 4  # plans x operations that are mended, and plans at least
_HASTENED = 2  # of the fastest plans, those that are made faster still
_ROUNDING = 1e-12  # relative, of times


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """Plans of one way and their peaks over all GPUs, [P]."""

    way: WayPlans
    peak_w: Floats
    obeys: Flags

    @property
    def fastest_s(self) -> tuple[float, bool]:
        """The shortest makespan, and whether not even that plan obeys."""
        fastest = int(self.way.found.makespan_s.argmin())
        return float(self.way.found.makespan_s[fastest]), not self.obeys[fastest]

    def obeying(self) -> list[WayPlans]:
        """The way with the plans that obey, if any."""
        return [self.way.kept(self.obeys)] if self.obeys.any() else []


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Court:
    """Judges and mends plans of one job, planned from `offer`; `limits` are those on clock changes."""

    offer: Offer
    pipeline: Pipeline
    gpus_per_stage: int
    rule: PeakRule
    limits: SwitchLimits | None

    def judged(self, way: WayPlans) -> Trial:
        """Simulate a way's plans for their peaks."""
        peaks_w = [self.peak_w(way.problem, plan.options) for plan in way.own_plans()]
        obeys = np.array([self.rule.obeys(peak_w) for peak_w in peaks_w], dtype=np.bool_)
        return Trial(way=way, peak_w=np.array(peaks_w), obeys=obeys)

    def peak_w(self, problem: Problem, options: Sequence[Option]) -> float:
        """The peak of a plan over all GPUs of the pipeline."""
        timeline = self._timeline(problem, options)
        loads = loads_of(problem.schedule, timeline, options, problem.wait_power_w)
        return loads.of_pipeline(self.gpus_per_stage).peak_w(self.rule.lasts_s)

    def mended(self, trial: Trial) -> list[WayPlans]:
        """The way's plans that do not obey, mended, and the fastest made faster still; empty where none could be.

        Plans under limits on clock changes are left alone, and mended ones that exceed the limits left out.
        """
        way = trial.way
        if way.limited is not None or self.rule.cap_w is None or way.problem.way is None:
            return []
        table = self.offer.offered[way.problem.way]
        options = [table[key] for key in sorted(table)]
        steps = ladders(options)
        mender = Mender(way.problem, steps, self.rule.cap_w / self.gpus_per_stage, self.rule.lasts_s)
        begin = steps.begin[way.problem.front_of]
        found = [mender.mend(begin + places) for places in self._places(trial, options)]
        plans = sorted((one for one in found if one is not None), key=lambda one: one.makespan_s)
        plans += [mender.hasten(one) for one in plans[:_HASTENED]]
        return self._kept(way, options, [replace(one, places=one.places - begin) for one in plans])

    def _places(self, trial: Trial, options: list[tuple[Option, ...]]) -> list[Ints]:
        """Some plans that do not obey: each operation's option among those of its key."""
        way = trial.way
        wrong = np.flatnonzero(~trial.obeys)
        most = max(_MENDED_OPS // way.problem.n_ops, _FEWEST_MENDED)
        if len(wrong) > most:
            wrong = wrong[np.unique(np.linspace(0, len(wrong) - 1, most).round().astype(int))]
        place_of = [{option: place for place, option in enumerate(own)} for own in options]
        plans = way.own_plans()
        fronts = way.problem.front_of.tolist()
        return [
            np.array([place_of[f][one] for f, one in zip(fronts, plans[index].options, strict=True)])
            for index in wrong.tolist()
        ]

    def _kept(self, way: WayPlans, options: list[tuple[Option, ...]], plans: list[Mended]) -> list[WayPlans]:
        """The plans that are simulated to obey, and keep the limits, as plans of a way that knows all options."""
        if not plans:
            return []
        found = Limited(
            choices=np.stack([one.places for one in plans], axis=1),
            makespan_s=np.array([one.makespan_s for one in plans]),
            bound_j=way.bound_j,
        )
        again = self.judged(
            replace(way, problem=replace(way.problem, measured=tuple(options)), limited=found)
        )
        within = [self._keeps_limits(way.problem, plan.options) for plan in again.way.own_plans()]
        return replace(again, obeys=again.obeys & np.array(within)).obeying()

    def _keeps_limits(self, problem: Problem, chosen: Sequence[Option]) -> bool:
        if self.limits is None:
            return True
        table, timeline = clock_table(problem), self._timeline(problem, chosen)
        clocks = np.searchsorted(table.clocks_mhz, [[one.sm_clock_mhz] for one in chosen]).astype(np.int16)
        start_s, total_s = np.array(timeline.start_s)[:, None], np.array([timeline.iteration_time_s])
        dwell_s = float(shortest_dwell_s(table, clocks, start_s, total_s)[0]) * (1 + _ROUNDING)
        return int(table.switches(clocks)[0]) <= self.limits.most and dwell_s >= self.limits.min_dwell_s

    def _timeline(self, problem: Problem, options: Sequence[Option]) -> Timeline:
        time_s = [one.time_s for one in options]
        return simulate(problem.schedule, time_s, self.pipeline.p2p_time_s, self.pipeline.fixed_time_s)
