"""Comparing two plans or two frontiers. Nothing is judged here: `thresholds` does that."""

from typing import TYPE_CHECKING, TypeAlias

from energyopt.planner.diff.clocks import compare_clocks, left_out, op_name
from energyopt.planner.diff.comparable import check_comparable
from energyopt.planner.diff.executions import compare_executions
from energyopt.planner.diff.records import Change, Comparison, Group, Side
from energyopt.planner.diff.thresholds import NOISE
from energyopt.schemas.plan import Baseline, Plan, Prediction

if TYPE_CHECKING:  # a comparison of plans needs no pyarrow
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.frontier_points import FrontierPoint

NAMED_POINTS = ("fastest", "max_clock_time", "min_energy", "best_edp")
_BASELINE = ("iteration_time_s", "energy_j")
_PREDICTED = (*_BASELINE, "lower_bound_j", "gap")

Numbers: TypeAlias = "Prediction | Baseline | FrontierPoint | None"


def compare_plans(old: Plan, new: Plan, *, allow: frozenset[str]) -> Comparison:
    """Compare two plans of one job: prediction (J, s), baselines, clocks (MHz) and partitions.

    Raises:
        NotComparableError: different jobs, in something that `allow` (names of `Allowance`) does not accept.
    """
    sides = _plan_side(old), _plan_side(new)
    notes = check_comparable(*sides, allow)
    groups = (
        _group("predicted", old.predicted, new.predicted, judged=True),
        _group("max_clock baseline", old.max_clock, new.max_clock),
        _group("best_single_clock baseline", old.best_single_clock, new.best_single_clock),
    )
    return Comparison(
        old=sides[0],
        new=sides[1],
        groups=groups,
        clocks=compare_clocks(old, new),
        executions=compare_executions(old, new),
        offers=() if new.predicted is None else ((new.predicted.iteration_time_s, new.predicted.energy_j),),
        notes=notes + left_out(old, new) + _alternatives(old, new),
    )


def compare_frontiers(old: "Frontier", new: "Frontier", *, allow: frozenset[str]) -> Comparison:
    """Compare two frontiers of one job: their named points, and what each costs at the old points' times.

    Raises:
        NotComparableError: different jobs, in something that `allow` (names of `Allowance`) does not accept.
    """
    sides = _frontier_side(old), _frontier_side(new)
    notes = check_comparable(*sides, allow)
    before, after = _named(old), _named(new)
    names = [
        name for name in dict.fromkeys((*NAMED_POINTS, *before, *after)) if name in before or name in after
    ]
    groups = [_group(name, before.get(name), after.get(name), judged=True) for name in names]
    return Comparison(
        old=sides[0],
        new=sides[1],
        groups=(*groups, _group("max_clock baseline", old.max_clock, new.max_clock)),
        deadlines=tuple(_at_deadline(point, new) for point in old.points),
        offers=tuple((point.iteration_time_s, point.energy_j) for point in new.points),
        notes=notes,
    )


def _alternatives(old: Plan, new: Plan) -> tuple[str, ...]:
    """A note where the further points of two plans differ; they are not judged."""
    if old.alternatives == new.alternatives:
        return ()
    return (f"alternatives differ: {len(old.alternatives)} before, {len(new.alternatives)} now; not judged",)


def _group(name: str, old: Numbers, new: Numbers, judged: bool = False) -> Group:
    quantities = _PREDICTED if judged else _BASELINE
    return Group(
        name=name,
        judged=judged,
        in_old=old is not None,
        in_new=new is not None,
        changes=tuple(
            Change(quantity=one, old=getattr(old, one, None), new=getattr(new, one, None))
            for one in quantities
        ),
    )


def _named(frontier: "Frontier") -> "dict[str, FrontierPoint]":
    return {name: point for point in frontier.points for name in point.names}


def _at_deadline(point: "FrontierPoint", new: "Frontier") -> tuple[float, Change]:
    """The old point's energy beside that of the cheapest new point which is as fast."""
    deadline_s = point.iteration_time_s
    latest_s = deadline_s * (1 + NOISE)
    fitting = [other.energy_j for other in new.points if other.iteration_time_s <= latest_s]
    return deadline_s, Change(quantity="energy_j", old=point.energy_j, new=min(fitting, default=None))


def _plan_side(plan: Plan) -> Side:
    return Side(
        kind="plan",
        profile_sha256=plan.profile_sha256,
        device_name=plan.device_name,
        device_kind=plan.device_kind,
        scope=plan.scope,
        wait_power_w=None,
        gpus=plan.gpus,
        pipeline=plan.pipeline,
        orders=tuple(tuple(op_name(op) for op in ops) for ops in plan.stages),
    )


def _frontier_side(frontier: "Frontier") -> Side:
    orders = tuple(
        tuple((op.kind, op.chunk, op.microbatch, op.backward_chunk, op.backward_microbatch) for op in order)
        for order in frontier.schedule.orders
    )
    return Side(
        kind="frontier",
        profile_sha256=frontier.profile_sha256,
        device_name=frontier.device_name,
        device_kind=frontier.device_kind,
        scope=frontier.scope,
        wait_power_w=frontier.wait_power_w,
        gpus=frontier.gpus,
        pipeline=frontier.pipeline,
        orders=orders,
    )
