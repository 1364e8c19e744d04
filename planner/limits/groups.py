"""Which operations share a clock: in the relaxed problem, or because the user asks for it.

Legend: n operations as in `Schedule.ops`, G groups, C clocks.
"""

from collections.abc import Hashable, Iterable

import numpy as np

from energyopt.planner.arrays import Flags, Ints
from energyopt.planner.hulls import lower_hull
from energyopt.planner.limits.clocks import ClockTable
from energyopt.schemas.errors import RequestError
from energyopt.schemas.ops import Schedule

_MOST_STEPS = 8  # groups from either end of the iteration to its steady state
_STEADY = 2  # microbatches at either end that are not in the steady state, in numbers of stages


def ramp_groups(schedule: Schedule) -> Ints:
    """Groups [n] for the relaxed problem: by stage, chunk, kind, and how far from the iteration's ends.

    As many microbatches as there are stages count singly at either end (a few together in deep pipelines), the
    others between them as one.
    """
    last, stages = schedule.microbatches - 1, schedule.stages
    steps = np.unique(np.linspace(0, stages, min(stages, _MOST_STEPS) + 1).round()).astype(np.int64)[1:]

    def place(microbatch: int) -> tuple[int, bool]:
        distance = min(microbatch, last - microbatch)
        step = int(np.searchsorted(steps, distance, side="right"))
        return step, step < len(steps) and microbatch > distance

    return _numbered((op.key, place(op.microbatch)) for op in schedule.ops)


def stage_groups(schedule: Schedule) -> Ints:
    """One group for each stage, [n]."""
    return _numbered(op.stage for op in schedule.ops)


def steady_groups(schedule: Schedule) -> Ints:
    """One group for each stage's steady state, and every other operation on its own, [n].

    In the steady state are all microbatches but the first and the last 2 x stages.
    """
    edge = _STEADY * schedule.stages
    return _numbered(
        (op.stage,) if edge <= op.microbatch < schedule.microbatches - edge else (op.stage, index)
        for index, op in enumerate(schedule.ops)
    )


def common_clocks(table: ClockTable, group_of: Ints, *, required: bool = True) -> Flags:
    """The clocks that all operations of a group were measured at, [G, C].

    Raises:
        RequestError: a group has none, and is required to.
    """
    missing = np.zeros((int(group_of.max()) + 1, len(table.clocks_mhz)), dtype=np.int64)
    np.add.at(missing, group_of, np.isinf(table.time_nC))
    common: Flags = missing == 0
    if required and not common.any(axis=1).all():
        stage = int(table.stage_of[np.isin(group_of, np.flatnonzero(~common.any(axis=1)))][0])
        raise RequestError(
            f"the operations of stage {stage} share no measured clock; profile the same clocks for all of them"
        )
    return common


def offered_clocks(table: ClockTable, group_of: Ints) -> Flags:
    """The common clocks that lie on a hull: of one front of the stage, or of all of them together, [G, C].

    The relaxed problem is offered no others, for speed; bounds are over all clocks whatever it was offered.
    """
    common = common_clocks(table, group_of)
    hull = np.zeros_like(common)
    stage_of_group = np.zeros(len(common), dtype=np.int64)
    stage_of_group[group_of] = table.stage_of
    for stage in range(len(table.first) - 1):
        hull[stage_of_group == stage] = _on_hulls(table, stage)
    offered = common & hull
    empty = ~offered.any(axis=1)
    offered[empty] = common[empty]
    return offered


def _on_hulls(table: ClockTable, stage: int) -> Flags:
    """The clocks on the hulls of a stage's fronts and of their sum, [C]."""
    fronts = np.unique(table.problem.front_of[table.stage_of == stage]).tolist()
    found = np.zeros(len(table.clocks_mhz), dtype=np.bool_)
    for combination in [*([front] for front in fronts), fronts]:
        time_s, effective_j = (
            array[combination].sum(axis=0) for array in (table.time_FC, table.effective_FC)
        )
        ranked = [int(one) for one in np.lexsort((effective_j, time_s)) if np.isfinite(time_s[one])]
        front: list[int] = []
        for clock in ranked:
            if not front or effective_j[clock] < effective_j[front[-1]]:
                front.append(clock)
        found[
            np.array(front, dtype=np.int64)[lower_hull(time_s[front].tolist(), effective_j[front].tolist())]
        ] = True
    return found


def _numbered(names: Iterable[Hashable]) -> Ints:
    """Numbers from 0 on in the order in which names first come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
