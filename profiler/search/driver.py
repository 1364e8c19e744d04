"""Measures what the engine proposes, turn by turn, with the sweep's own windows, clocks and record.

Rank 0 proposes for all. A turn's points are measured in rounds, highest clock first, as the sweep's are, and what
counts of them is the slowest rank's time and the mean energy. The turns are kept with the windows, so that a run
that was stopped goes on with the points that it had proposed, and then proposes what it would have.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.sweep import Sweep
from energyopt.profiler.search.budgeting import points_a_turn, points_allowed
from energyopt.profiler.search.engine import Proposal, Search
from energyopt.profiler.search.outcome import Outcome
from energyopt.profiler.search.space import Cost
from energyopt.profiler.search.spaces_of import Searched, searched_partitions
from energyopt.profiler.search.stopping import QUIET_TURNS, STILL, Patience
from energyopt.profiler.search.unions import common_spaces
from energyopt.profiler.workloads.interface import Kernel

TURN = "turn"
"""What a turn's points are kept under in the record."""


def search(job: Job, sweep: Sweep, partial: Partial, clocks_mhz: tuple[int, ...]) -> Outcome:
    """Measure what is worth it of the workload's partitions; the windows go where the sweep's are.

    Args:
        job: with the composites.
        sweep: has measured the kernels by themselves.
        partial: the record.
        clocks_mhz: those that the sweep measured, highest first.

    Raises:
        MeasurementError: a rank is gone, or the record cannot be written.
        WorkloadError: a partition fails.
    """
    return _Driver(job, sweep, partial, clocks_mhz).run()


class _Driver:
    """One rank's part of a search."""

    def __init__(self, job: Job, sweep: Sweep, partial: Partial, clocks_mhz: tuple[int, ...]) -> None:
        self._job, self._sweep, self._partial = job, sweep, partial
        found = searched_partitions(job.workload, clocks_mhz, self._time_s)
        self._own = {one.space.name: one for one in found}
        self._spaces = common_spaces(job.team, [one.space for one in found])
        self._engine = Search(self._spaces, self._wait_power_w(), job.settings.seed)
        self._allowed = points_allowed(self._spaces, job.settings.search_points)
        self._patience = Patience()
        self._point_s = 0.0

    def run(self) -> Outcome:
        """Turn after turn, until there is a reason to stop."""
        turn, gain = 0, None
        while True:
            late = turn > 0 and self._sweep.out_of_time(self._point_s * points_a_turn(len(self._spaces)))
            said = self._say(turn, late) if self._job.team.rank == 0 else None
            why, points, best_gain = self._job.team.gather(said)[0]
            if why is not None:
                return self._ended(why, gain)
            self._take_turn([Proposal(*one) for one in points])
            turn, gain = turn + 1, best_gain

    def _ended(self, why: str, gain: float | None) -> Outcome:
        found = Outcome(why=why, measured=self._engine.measured, points=self._engine.points, gain=gain)
        self._job.say(str(found))
        return found

    def _say(self, turn: int, late: bool) -> list[Any]:
        """Why to stop, or what to measure next and what is expected of it."""
        kept = self._partial.all(TURN)
        if turn < len(kept):
            return self._told(kept[turn])
        left = self._allowed - self._engine.measured
        why = self._why_stop(turn, left, late)
        if why is not None:
            return [why, [], None]
        self._job.progress(f"search: {self._engine.measured} of at most {self._allowed} points", self._done())
        count = min(left, points_a_turn(len(self._spaces)))
        chosen = self._engine.first() if turn == 0 else self._engine.propose(turn, count)
        if not chosen:
            return ["nothing is left to measure", [], None]
        points = [[one.space, one.point, one.gain] for one in chosen]
        found = {"points": points, "best_gain": None if turn == 0 else self._engine.best_gain}
        self._partial.add(TURN, found)
        return self._told(found)

    def _told(self, turn: dict[str, Any]) -> list[Any]:
        """What goes to the other ranks of a turn, once its gain has been noted."""
        if turn["best_gain"] is not None:
            self._patience.hear(turn["best_gain"])
        return [None, turn["points"], turn["best_gain"]]

    def _why_stop(self, turn: int, left: int, late: bool) -> str | None:
        if turn == 0:
            return None
        if self._patience.over:
            return f"{QUIET_TURNS} turns in a row expected no point to gain {STILL:.2%} of a hypervolume"
        if left <= 0:
            return f"the budget of {self._allowed} points is used up"
        return "the time is used up" if late else None

    def _done(self) -> float:
        return self._engine.measured / self._allowed

    def _take_turn(self, proposals: Sequence[Proposal]) -> None:
        began_s = self._sweep.bench.now_s()
        for number in range(self._sweep.plan.windows):
            self._round(number, proposals)
        self._point_s = (self._sweep.bench.now_s() - began_s) / len(proposals)
        for one, cost in zip(proposals, self._costs(proposals), strict=True):
            self._engine.observe(one.space, one.point, cost)

    def _round(self, number: int, proposals: Sequence[Proposal]) -> None:
        """One window of each point."""
        kernels: dict[int, dict[str, Kernel]] = {}
        for one in proposals:
            there = kernels.setdefault(self._spaces[one.space].clock_mhz(one.point), {})
            kernel = self._kernel(one)
            if kernel is not None:
                there[kernel.name] = kernel
        for clock in sorted(kernels, reverse=True):
            self._sweep.visit(clock, number, kernels[clock].values())

    def _kernel(self, proposal: Proposal) -> Kernel | None:
        """What is to be measured; None where this rank has none of it, or has measured its parts."""
        space = self._spaces[proposal.space]
        own = self._own.get(space.name)
        return None if own is None else own.kernels[proposal.point // len(space.clocks_mhz)]

    def _costs(self, proposals: Sequence[Proposal]) -> list[Cost | None]:
        """Of all ranks: the slowest time, for the others wait, and the mean energy."""
        mine = [self._cost(one) for one in proposals]
        found = zip(*self._job.team.gather(mine), strict=True)
        return [_joined([one for one in ranks if one is not None]) for ranks in found]

    def _cost(self, proposal: Proposal) -> list[float] | None:
        """Time and energy on this rank, from its usable windows."""
        space = self._spaces[proposal.space]
        own, kernel = self._own.get(space.name), self._kernel(proposal)
        if own is None:
            return None
        parts = [(kernel.name, 1)] if kernel is not None else _parts(own)
        return self._sum(parts, space.clock_mhz(proposal.point))

    def _sum(self, parts: list[tuple[str, int]], clock: int) -> list[float] | None:
        time_s = energy_j = 0.0
        for name, count in parts:
            usable = [one for one in self._sweep.windows.get((name, clock), []) if one.usable]
            if not usable:
                return None
            time_s += count * fmean(one.time_s for one in usable)
            energy_j += count * fmean(one.energy_j or 0.0 for one in usable)
        return [time_s, energy_j]

    def _time_s(self, name: str, clock: int) -> float | None:
        found = self._sum([(name, 1)], clock)
        return None if found is None else found[0]

    def _wait_power_w(self) -> float:
        """Mean over the ranks that measured theirs."""
        mine = self._sweep.wait_power_w if self._job.able else None
        return fmean(one for one in self._job.team.gather(mine) if one is not None)


def _parts(own: Searched) -> list[tuple[str, int]]:
    return [(use.kernel.name, use.count) for use in own.parts]


def _joined(found: list[list[float]]) -> Cost | None:
    if not found:
        return None
    return Cost(max(time_s for time_s, _ in found), fmean(energy_j for _, energy_j in found))
