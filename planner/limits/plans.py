"""A plan for one deadline under limits: several beginnings, the best of which are searched further.

Beginnings are the relaxed problem's cheapest sequences, rounded by a dive, and one clock per stage. The best of
these get even steady states, and all that is left is small moves.

Legend: n operations as in `Schedule.ops`, W plans (columns).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from energyopt.planner.arrays import Choices, Floats, Ints
from energyopt.planner.limits.clocks import ClockTable
from energyopt.planner.limits.diving import Dive, dive, segment
from energyopt.planner.limits.groups import common_clocks, stage_groups
from energyopt.planner.limits.moves import GroupMoves, Neighbourhood, RunMoves
from energyopt.planner.limits.prices import Entry
from energyopt.planner.limits.search import Referee, Task, improve
from energyopt.planner.limits.starts import even_plans, fast_ended_plans, joined_plans, mended, paced_plans
from energyopt.planner.limits.steady import mixed_plans, steady_plans
from energyopt.planner.limits.viterbi import cheapest_sequences

_WAYS = ((1.0, 1.0), (1.0, 0.6), (0.85, 1.0), (1.2, 1.0), (1.0, 0.8), (1.0, 0.4), (0.7, 1.0), (1.5, 1.0))
"""Factors on the prices of time, and shares of the changes that a segmentation uses; the rest splits runs."""

_SEGMENTED, _LEAST_SEGMENTED, _MOST_SEGMENTED = (
    5000,
    4,
    24,
)  # segmentations tried x operations, and their number
_MOST_KNOWN = 3  # known plans whose segmentations are tried
_DIVES = 2  # segmentations that are rounded
_CHANGE_FACTORS = np.geomspace(0.3, 1e3, 48)
_LEAST_CHANGE_J = 1e-3
_MOST_RUNS = 160  # changes of plans that are rounded by a dive; further ones come with even steady states
_KEPT = 2  # beginnings that are searched further
_MIXED = 160  # pairs of periods that are tried
_SHIFTS = np.array([-2, -1, 0, 1])  # microbatches around the best place for a cut
_ROUNDS, _FEW_ROUNDS = 60, 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A plan [n] and what the task's objective gives for it."""

    plan: Choices
    cost_j: float


def limited_plan(
    referee: Referee, task: Task, entries: list[Entry], known: Choices, *, thorough: bool = True
) -> Found | None:
    """The best plan found for a task; None where none was.

    entries: prices to go by, the best first. known [n, W]: plans that are tried besides, whether they obey or not.
    thorough: if not, no relaxed problems are solved and few moves made: known plans are nearly good enough.
    """
    table = referee.table
    guide = entries[0].prices
    price_w = guide.of_ops(table.problem.graph)
    moves = RunMoves(table, price_w, guide.change_j)
    begun = known
    if thorough:
        dives = _dives(table, task, entries, known)
        begun = np.concatenate((known, even_by_stage(table, price_w), dives), axis=1)
    begun = np.concatenate((begun, mended(referee, task.limits.min_dwell_s, begun)), axis=1)
    best = _best_of(referee, task, begun, _KEPT)
    before, after = (_ROUNDS, _ROUNDS) if thorough else (0, _FEW_ROUNDS)
    found = [improve(referee, task, plan, moves, before) for plan in best]
    for plan, _ in list(found):
        mixed = _with_even_middle(referee, task, plan, guide.change_j, known)
        mixed = np.concatenate((mixed, joined_plans(table, plan, known)), axis=1)
        found += [improve(referee, task, one, moves, after) for one in _best_of(referee, task, mixed, 1)]
    return _cheapest(found)


def grouped_plan(referee: Referee, task: Task, group_of: Ints, entries: list[Entry]) -> Found | None:
    """The best plan found whose groups [n] each keep to one clock; None where none was."""
    table = referee.table
    price_w = entries[0].prices.of_ops(table.problem.graph)
    common = common_clocks(table, group_of)
    begun = [even_plans(table, group_of, common, price_w), paced_plans(table, group_of, common)]
    if (rounded := Dive(table, group_of).plan(task.deadline_s)) is not None:
        begun.append(rounded[:, None])
    moves: Neighbourhood = GroupMoves(table, group_of, price_w)
    best = _best_of(referee, task, np.concatenate(begun, axis=1), _KEPT)
    return _cheapest([improve(referee, task, plan, moves, _ROUNDS) for plan in best])


def even_by_stage(table: ClockTable, price_w: Floats) -> Choices:
    """One clock per stage, at several prices and paces, or between its ends; none where one has no common clock."""
    groups = stage_groups(table.problem.schedule)
    common = common_clocks(table, groups, required=False)
    if not common.any(axis=1).all():
        return np.empty((table.problem.n_ops, 0), dtype=np.int16)
    even = even_plans(table, groups, common, price_w)
    return np.concatenate((even, paced_plans(table, groups, common), fast_ended_plans(table, common)), axis=1)


def _dives(table: ClockTable, task: Task, entries: list[Entry], known: Choices) -> Choices:
    """The segmentations of least relaxed energy, rounded; [n, W]."""
    segmentations = [
        segment(table, plan, task.deadline_s) for plan in _segmented(table, task, entries, known)
    ]
    usable = [one for one in segmentations if one is not None]
    usable.sort(key=lambda one: one.relaxed.effective_j)
    found = [dive(table, one, task.deadline_s, min(task.limits.most, _MOST_RUNS)) for one in usable[:_DIVES]]
    plans = [plan for plan in found if plan is not None]
    return np.stack(plans, axis=1) if plans else np.empty((table.problem.n_ops, 0), dtype=np.int16)


def _segmented(table: ClockTable, task: Task, entries: list[Entry], known: Choices) -> list[Choices]:
    """Known plans, and cheapest sequences of about as many changes as allowed and of fewer; few for large jobs."""
    count = min(max(_SEGMENTED // table.problem.n_ops, _LEAST_SEGMENTED), _MOST_SEGMENTED)
    most = min(task.limits.most, _MOST_RUNS)
    few = known[:, table.switches(known) <= most].T
    found = {np.diff(plan).astype(np.bool_).tobytes(): plan for plan in few[:_MOST_KNOWN]}
    for (factor, share), entry in product(_WAYS, entries):
        price_w = factor * entry.prices.of_ops(table.problem.graph)
        change_j = max(entry.prices.change_j, _LEAST_CHANGE_J) * _CHANGE_FACTORS
        sequences = cheapest_sequences(table, price_w, change_j).plans
        column = int((table.switches(sequences) > share * most).sum())  # fewer with every price
        if column < len(change_j):
            plan = sequences[:, column]
            found.setdefault(np.diff(plan).astype(np.bool_).tobytes(), plan)
        if len(found) >= count:
            break
    return list(found.values())


def _with_even_middle(
    referee: Referee, task: Task, plan: Choices, change_j: float, known: Choices
) -> Choices:
    """The plan with pairs of even steady states, cut where the deadline and the changes allow, [n, W]."""
    table = referee.table
    steady = steady_plans(table, (np.inf, change_j, 0.0), plan, known)
    if steady is None:
        return plan[:, None]
    pairs, share = _promising(referee, task, steady.plans)
    microbatches = table.problem.schedule.microbatches
    shifted = np.clip(share[:, None] + _SHIFTS / microbatches, 0.0, 1.0).ravel()
    return mixed_plans(table, steady, np.repeat(pairs, len(_SHIFTS), axis=1), shifted)


def _promising(referee: Referee, task: Task, plans: Choices) -> tuple[Ints, Floats]:
    """Pairs [2, W] of a plan that obeys and another, and the largest share [W] of the second that might."""
    makespan_s, switches = referee.makespan_s(plans), referee.table.switches(plans)
    cost_j = referee.table.effective_j(plans) + task.power_w * makespan_s
    obeys = (makespan_s <= task.deadline_s) & (switches <= task.limits.most)
    first = np.repeat(np.flatnonzero(obeys), plans.shape[1])
    second = np.tile(np.arange(plans.shape[1]), int(obeys.sum()))
    share = np.ones(len(first))
    for value, most in ((makespan_s, task.deadline_s), (switches, task.limits.most)):
        more = (value[second] - value[first]).astype(np.float64)
        room = most - value[first]
        share = np.where(more > room, np.minimum(share, room / np.where(more > 0, more, 1.0)), share)
    between_j = (1 - share) * cost_j[first] + share * cost_j[second]
    best = np.argsort(between_j, kind="stable")[:_MIXED]
    return np.stack((first[best], second[best])), share[best]


def _best_of(referee: Referee, task: Task, plans: Choices, count: int) -> list[Choices]:
    """The cheapest plans that obey, each cost once."""
    cost_j = referee.cost_j(task, plans)
    different_j, columns = np.unique(cost_j, return_index=True)
    return [plans[:, column] for column in columns[np.isfinite(different_j)][:count].tolist()]


def _cheapest(found: list[tuple[Choices, float]]) -> Found | None:
    if not found:
        return None
    plan, cost_j = min(found, key=lambda one: one[1])
    return Found(plan=plan, cost_j=cost_j)
