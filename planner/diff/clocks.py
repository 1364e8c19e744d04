"""Which clocks changed, per (stage, chunk, kind)."""

from collections.abc import Mapping
from statistics import fmean

from energyopt.planner.diff.records import ClockRow, ClockStats, OpName
from energyopt.schemas.ops import OpKey
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

Clocks = dict[OpKey, dict[OpName, int]]  # in MHz


def op_name(op: PlannedOp) -> OpName:
    """What tells an operation from the others of its stage."""
    return op.op, op.chunk, op.microbatch, op.backward_chunk, op.backward_microbatch


def compare_clocks(old: Plan, new: Plan) -> tuple[ClockRow, ...]:
    """One row per (stage, chunk, kind) of the stages that both plans have, by stage, chunk and kind."""
    stages = min(old.pipeline.stages, new.pipeline.stages)
    before, after = _clocks(old, stages), _clocks(new, stages)
    keys = sorted(before.keys() | after.keys())
    return tuple(_row(key, before.get(key, {}), after.get(key, {})) for key in keys)


def left_out(old: Plan, new: Plan) -> tuple[str, ...]:
    """What a comparison of operations has to leave out, in words."""
    one, other = old.pipeline.stages, new.pipeline.stages
    if one == other:
        return ()
    longer = "OLD" if one > other else "NEW"
    first, last = min(one, other), max(one, other) - 1
    which = f"stage {first}" if first == last else f"stages {first} to {last}"
    return (f"clocks and partitions of {which} are left out: only {longer} has them",)


def _clocks(plan: Plan, stages: int) -> Clocks:
    found: Clocks = {}
    for stage, ops in enumerate(plan.stages[:stages]):
        for op in ops:
            found.setdefault(OpKey(stage, op.chunk, op.op), {})[op_name(op)] = op.sm_clock_mhz
    return found


def _row(key: OpKey, old: Mapping[OpName, int], new: Mapping[OpName, int]) -> ClockRow:
    common = old.keys() & new.keys()
    return ClockRow(
        stage=key.stage,
        chunk=key.chunk,
        kind=key.kind,
        common=len(common),
        changed=sum(old[name] != new[name] for name in common),
        old=_stats(old),
        new=_stats(new),
    )


def _stats(clocks: Mapping[OpName, int]) -> ClockStats | None:
    if not clocks:
        return None
    values = list(clocks.values())
    return ClockStats(ops=len(values), mean_mhz=fmean(values), min_mhz=min(values), max_mhz=max(values))
