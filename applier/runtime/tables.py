"""One stage's part of a plan, ready to be looked up while training."""

from dataclasses import dataclass, field

from energyopt.applier.overlap.ways import Key, PlannedWays, planned_ways
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PartitionConfig
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp, Stages

UNPLANNED_KINDS = frozenset({OpKind.OPTIMIZER, OpKind.GRAD_SYNC})
"""Kinds that a plan may leave out without a word: they run at the safe clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """What one stage does.

    ops: in execution order; `positions` finds an operation in it.
    clocks_mhz: for the plan and each of its alternatives the clock of every operation.
    predicted_s: iteration times that go with them; None where nothing is predicted.
    safe_mhz: the stage's highest clock in the plan itself, for everything that is not planned.
    ways: how operations run their partitions, in the plan and under all its alternatives (see `overlap.ways`).
    left_out: alternatives of the plan that are not among these.
    """

    ops: tuple[PlannedOp, ...]
    positions: dict[Key, int]
    clocks_mhz: tuple[tuple[int, ...], ...]
    predicted_s: tuple[float | None, ...]
    safe_mhz: int
    ways: PlannedWays = field(default_factory=dict)
    left_out: int = 0

    def alternative_for(self, slowdown: float) -> int:
        """The slowest of the plan and its alternatives within `slowdown` times the plan's iteration time."""
        own_s = self.predicted_s[0]
        if own_s is None:
            return 0
        fitting = [
            (time_s, index)
            for index, time_s in enumerate(self.predicted_s)
            if time_s is not None and time_s <= own_s * slowdown * (1 + 1e-9)
        ]
        return max(fitting, default=(own_s, 0))[1]


def stage_table(plan: Plan, stage: int) -> StageTable:
    """The table of one stage.

    An alternative changes clocks alone. One whose operations are not those of the plan, or run in other parts or
    partitions, promises what would not happen, and is left out, on all stages alike: ranks agree on an alternative
    by its number.
    """
    ops = plan.stages[stage]
    runs = _runs(plan.stages)
    others = [one for one in plan.alternatives if _runs(one.stages) == runs]
    stages = [ops, *(one.stages[stage] for one in others)]
    own_s = None if plan.predicted is None else plan.predicted.iteration_time_s
    return StageTable(
        ops=ops,
        positions={key: position for position, key in enumerate(map(_key, ops))},
        clocks_mhz=tuple(tuple(op.sm_clock_mhz for op in one) for one in stages),
        predicted_s=(own_s, *(one.predicted.iteration_time_s for one in others)),
        safe_mhz=max((op.sm_clock_mhz for op in ops), default=0),
        ways=planned_ways(ops),
        left_out=len(plan.alternatives) - len(others),
    )


def _runs(stages: Stages) -> list[list[tuple[Key, int, dict[str, PartitionConfig]]]]:
    """What stages do, whatever the clocks."""
    return [[(_key(op), op.nanobatches, dict(op.partitions)) for op in ops] for ops in stages]


def _key(op: PlannedOp) -> Key:
    return (op.op, op.chunk, op.microbatch)
