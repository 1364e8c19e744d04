"""A plan as tables."""

from collections.abc import Iterator
from statistics import fmean

from energyopt.planner.executions import (
    Configs,
    Executions,
    clock_words,
    executions_by_key,
    launch_words,
    nanobatch_words,
    overlapped_words,
    sm_words,
)
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, device, gpus, number, percent, percent_change, relative
from energyopt.schemas.ops import OpKey
from energyopt.schemas.plan import Baseline, Plan, Prediction


def plan_tables(plan: Plan) -> tuple[Table, ...]:
    """The job, what is predicted beside the baselines, and the clocks and partitions per (stage, chunk, kind)."""
    partitions = _partitions(plan)
    beside = () if partitions is None else (partitions,)
    return _header(plan), _totals(plan), _clocks(plan), *beside


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


def _partitions(plan: Plan) -> Table | None:
    """One row for each partition that any operation runs otherwise than plainly; None where none does."""
    found = {key: one for key, one in executions_by_key(plan.stages).items() if not one.is_plain}
    if not found:
        return None
    own_clocks = any(
        config.sm_clock_mhz for one in found.values() for used in one.partitions.values() for config in used
    )
    columns = ("partitions of", "in nanobatches", "partition", "overlapped", "SMs", "launched before")
    rows = tuple(row for key, one in found.items() for row in _partition_rows(key, one, own_clocks))
    return Table(
        title="partitions, and how many operations run them so",
        columns=(*columns, "own MHz") if own_clocks else columns,
        rows=rows,
    )


def _partition_rows(key: OpKey, one: Executions, own_clocks: bool) -> Iterator[tuple[str, ...]]:
    cut = nanobatch_words(one.nanobatches)
    if not one.partitions:
        yield (str(key), cut, *[MISSING] * (5 if own_clocks else 4))
    for name, configs in one.partitions.items():
        yield (str(key), cut, name, *_config_cells(configs, own_clocks))


def _config_cells(configs: Configs, own_clocks: bool) -> tuple[str, ...]:
    cells = overlapped_words(configs), sm_words(configs), launch_words(configs)
    return (*cells, clock_words(configs)) if own_clocks else cells
