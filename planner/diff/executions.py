"""Which operations are carried out differently, per (stage, chunk, kind): nanobatches and partitions."""

from collections.abc import Mapping

from energyopt.planner.diff.clocks import op_name
from energyopt.planner.diff.records import ExecutionRow, OpName
from energyopt.planner.executions import config_in, executions
from energyopt.schemas.ops import OpKey
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

Planned = Mapping[OpName, PlannedOp]


def compare_executions(old: Plan, new: Plan) -> tuple[ExecutionRow, ...]:
    """One row per (stage, chunk, kind) where either plan has anything but plain operations.

    Of the stages that both plans have, by stage, chunk and kind.
    """
    stages = min(old.pipeline.stages, new.pipeline.stages)
    before, after = _planned(old, stages), _planned(new, stages)
    rows = (
        _row(key, before.get(key, {}), after.get(key, {})) for key in sorted(before.keys() | after.keys())
    )
    return tuple(row for row in rows if not (row.old.is_plain and row.new.is_plain))


def _planned(plan: Plan, stages: int) -> dict[OpKey, dict[OpName, PlannedOp]]:
    found: dict[OpKey, dict[OpName, PlannedOp]] = {}
    for stage, ops in enumerate(plan.stages[:stages]):
        for op in ops:
            found.setdefault(OpKey(stage, op.chunk, op.op), {})[op_name(op)] = op
    return found


def _row(key: OpKey, old: Planned, new: Planned) -> ExecutionRow:
    before, after = executions(list(old.values())), executions(list(new.values()))
    pairs = [(old[name], new[name]) for name in old.keys() & new.keys()]
    names = sorted(before.partitions.keys() | after.partitions.keys())
    recut = [one.nanobatches != other.nanobatches for one, other in pairs]
    differ = {
        name: [config_in(one, name) != config_in(other, name) for one, other in pairs] for name in names
    }
    return ExecutionRow(
        stage=key.stage,
        chunk=key.chunk,
        kind=key.kind,
        common=len(pairs),
        changed=sum(any(flags) for flags in zip(recut, *differ.values(), strict=True)),
        recut=sum(recut),
        partitions={name: sum(flags) for name, flags in differ.items()},
        old=before,
        new=after,
    )
