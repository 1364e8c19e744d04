"""Plans of a long pipeline from those of one with fewer microbatches: what its steady state does is done again.

Between its ramps a long pipeline repeats itself. Plans that change clocks seldom do so in the ramps, so that a
pipeline whose steady state is short says as much about them, and is searched in a fraction of the time. Whole
periods are cut out of the middle of every stage's order; a plan is lifted by giving what was cut out the clocks of
the period before.

Legend: n operations as in `Schedule.ops`, of the long pipeline; V places to cut at (columns).
"""

from dataclasses import dataclass, replace

import numpy as np

from energyopt.planner.arrays import Choices, Ints
from energyopt.planner.graph import build_graph
from energyopt.planner.problem import Problem
from energyopt.planner.repeats import backward_of, goes_on, period_of, series_of
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.ops import Op, Schedule

_PLACES = np.linspace(0.3, 0.7, 9)  # shares of the short pipeline's microbatches after which to cut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shorter:
    """A problem with fewer microbatches; `source` says which of its operations each long one follows, [n, V]."""

    problem: Problem
    source: Ints

    def lifted(self, plans: Choices) -> Choices:
        """Plans of the short pipeline's clocks [short n, W] for the long one, cut at every place, [n, W V]."""
        return np.concatenate([plans[place] for place in self.source.T], axis=1)


def shorter(problem: Problem, microbatches: int) -> Shorter | None:
    """The pipeline with at least so many microbatches; None where it has no more, or does not repeat itself."""
    schedule = problem.schedule
    period = period_of(schedule)
    cut = (schedule.microbatches - microbatches) // period * period
    if cut <= 0:
        return None
    left = schedule.microbatches - cut
    short = _without(schedule, left // 2 // period * period, cut, period)
    if short is None:
        return None
    afters = np.unique((left * _PLACES).astype(np.int64) // period * period).tolist()
    sources = [one for after in afters if (one := _source(schedule, short, after, cut, period)) is not None]
    key_front = {op.key: front for op, front in zip(schedule.ops, problem.front_of.tolist(), strict=True)}
    try:
        graph = build_graph(short, float(problem.graph.lag_s.max(initial=0.0)))
    except ScheduleError:
        return None
    found = replace(
        problem,
        schedule=short,
        graph=graph,
        front_of=np.array([key_front[op.key] for op in short.ops], dtype=np.int32),
    )
    return Shorter(problem=found, source=np.stack(sources, axis=1)) if sources else None


def _without(schedule: Schedule, after: int, cut: int, period: int) -> Schedule | None:
    """The schedule without `cut` microbatches of each series, from where each stage runs backward `after`."""
    orders = []
    for order in schedule.orders:
        series = series_of(order)
        begin = backward_of(order, after)
        before, end = begin - period * series, begin + cut * series
        if before < 0 or not goes_on(order[before:end], period, period * series):
            return None
        orders.append((*order[:begin], *(_earlier(op, cut) for op in order[end:])))
    return replace(schedule, microbatches=schedule.microbatches - cut, orders=tuple(orders))


def _earlier(op: Op, microbatches: int) -> Op:
    backward = None if op.backward_microbatch is None else op.backward_microbatch - microbatches
    return replace(op, microbatch=op.microbatch - microbatches, backward_microbatch=backward)


def _source(schedule: Schedule, short: Schedule, after: int, cut: int, period: int) -> Ints | None:
    """Where each operation has its clock from if the short pipeline's period before `after` goes on, [n]."""
    found, first = [], 0
    for order, kept in zip(schedule.orders, short.orders, strict=True):
        series = series_of(kept)
        begin, ahead, length = backward_of(kept, after), period * series, cut * series
        place = np.arange(len(order))
        again = begin - ahead + (place - begin) % ahead
        place = np.where(place < begin, place, np.where(place < begin + length, again, place - length))
        if place.min() < 0 or any(
            op.key != kept[at].key for op, at in zip(order, place.tolist(), strict=True)
        ):
            return None
        found.append(first + place)
        first += len(kept)
    return np.concatenate(found)
