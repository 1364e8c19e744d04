"""A plan as tables."""

from collections.abc import Iterator
from statistics import fmean

from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, device, gpus, number, percent, percent_change, relative
from energyopt.schemas.ops import OpKey
from energyopt.schemas.plan import Baseline, Plan, Prediction


def plan_tables(plan: Plan) -> tuple[Table, ...]:
    """The job, what is predicted beside the baselines, and the clocks per (stage, chunk, kind)."""
    return _header(plan), _totals(plan), _clocks(plan)


def _header(plan: Plan) -> Table:
    rows = (
        ("device", device(plan.device_name, plan.device_kind)),
        ("GPUs that totals cover", str(plan.gpus)),
        ("profile", plan.profile_sha256 or MISSING),
        *((name, str(value)) for name, value in plan.pipeline.to_json().items()),
        ("operations", str(sum(len(ops) for ops in plan.stages))),
        ("alternatives", str(len(plan.alternatives))),
    )
    return Table(title="plan", columns=("", "value"), rows=rows)


def _totals(plan: Plan) -> Table:
    columns = (
        "iteration",
        "sm_clock_mhz",
        "time_s",
        "energy_j",
        "bound_j",
        "gap",
        "plan's time",
        "plan's energy",
    )
    rows = tuple(_total_rows(plan))
    return Table(title=f"energy and time ({gpus(plan.gpus)})", columns=columns, rows=rows)


def _total_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    if plan.predicted is None:
        yield ("plan, not predicted", *[MISSING] * 7)
    else:
        yield "plan", MISSING, *_prediction(plan.predicted), MISSING, MISSING
    for name, one in (("max clock", plan.max_clock), ("best single clock", plan.best_single_clock)):
        if one is None:
            yield (name, *[MISSING] * 7)
        else:
            yield name, *_baseline(one, plan.predicted)
    for index, other in enumerate(plan.alternatives):
        yield f"alternative {index}", MISSING, *_prediction(other.predicted), MISSING, MISSING


def _prediction(one: Prediction) -> tuple[str, str, str, str]:
    return (
        number(one.iteration_time_s, "s"),
        number(one.energy_j, "J"),
        number(one.lower_bound_j, "J"),
        percent(one.gap),
    )


def _baseline(one: Baseline, plan: Prediction | None) -> tuple[str, ...]:
    clock = MISSING if one.sm_clock_mhz is None else str(one.sm_clock_mhz)
    time_s, energy_j = (None, None) if plan is None else (plan.iteration_time_s, plan.energy_j)
    return (
        clock,
        number(one.iteration_time_s, "s"),
        number(one.energy_j, "J"),
        MISSING,
        MISSING,
        percent_change(relative(time_s, one.iteration_time_s)),
        percent_change(relative(energy_j, one.energy_j)),
    )


def _clocks(plan: Plan) -> Table:
    found: dict[OpKey, list[int]] = {}
    for stage, ops in enumerate(plan.stages):
        for op in ops:
            found.setdefault(OpKey(stage, op.chunk, op.op), []).append(op.sm_clock_mhz)
    rows = tuple(
        (str(key), str(len(clocks)), str(min(clocks)), f"{fmean(clocks):.1f}", str(max(clocks)))
        for key, clocks in sorted(found.items())
    )
    columns = ("clocks of", "ops", "lowest MHz", "mean MHz", "highest MHz")
    return Table(title="clocks", columns=columns, rows=rows)
