"""The operations of a plan file, and how each runs. Standard library only."""

from dataclasses import dataclass
from typing import Any

from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Partitions, partitions_from_json, partitions_to_json
from energyopt.schemas.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOp:
    """One operation, the clock it runs at, and how its partitions run.

    nanobatches: parts that the microbatch is cut into; 1 for the whole.
    partitions: those that do not simply run one kernel after the other.
    """

    op: OpKind
    chunk: int
    microbatch: int
    sm_clock_mhz: int
    backward_chunk: int | None = None
    backward_microbatch: int | None = None
    nanobatches: int = 1
    partitions: Partitions = ()


Stages = tuple[tuple[PlannedOp, ...], ...]
"""The operations of each stage in execution order."""


def stages_to_json(stages: Stages) -> list[dict[str, Any]]:
    """One object for each stage."""
    return [{"stage": index, "ops": [_op_to_json(op) for op in ops]} for index, ops in enumerate(stages)]


def stages_from_json(node: Node, pipeline: Pipeline) -> Stages:
    """The counterpart of `stages_to_json`.

    Raises:
        FileFormatError: operations outside the pipeline, or one twice; names the field at fault.
    """
    stages = []
    for index, stage in enumerate(node.items()):
        if stage.field("stage").integer() != index:
            stage.field("stage").fail(f"expected stage {index}")
        stages.append(_ops(stage.field("ops"), pipeline))
    if len(stages) != pipeline.stages:
        node.fail(f"{len(stages)} stages, but the pipeline has {pipeline.stages}")
    return tuple(stages)


def _op_to_json(op: PlannedOp) -> dict[str, Any]:
    found: dict[str, Any] = {
        "op": str(op.op),
        "chunk": op.chunk,
        "microbatch": op.microbatch,
        "sm_clock_mhz": op.sm_clock_mhz,
    }
    if op.backward_chunk is not None:
        found |= {"backward_chunk": op.backward_chunk, "backward_microbatch": op.backward_microbatch}
    if op.nanobatches > 1:
        found["nanobatches"] = op.nanobatches
    if op.partitions:
        found["partitions"] = partitions_to_json(op.partitions)
    return found


def _ops(node: Node, pipeline: Pipeline) -> tuple[PlannedOp, ...]:
    """The operations of one stage; each may stand there once, for it is looked up by what it is."""
    limits = {"chunk": pipeline.chunks_per_stage, "microbatch": pipeline.microbatches}
    ops: dict[tuple[OpKind, int, int], PlannedOp] = {}
    for member in node.items():
        op = _op(member)
        for name, limit in limits.items():
            if getattr(op, name) >= limit:
                member.field(name).fail(f"{getattr(op, name)}, but the pipeline has {limit}, counted from 0")
        key = (op.op, op.chunk, op.microbatch)
        if key in ops:
            member.fail(f"{op.op} of chunk {op.chunk}, microbatch {op.microbatch} stands twice in its stage")
        ops[key] = op
    return tuple(ops.values())


def _op(node: Node) -> PlannedOp:
    kind = node.field("op").text()
    if kind not in list(OpKind):
        node.field("op").fail(f"{kind!r} is none of {', '.join(OpKind)}")
    backward_chunk, backward = node.optional("backward_chunk"), node.optional("backward_microbatch")
    for member in ("backward_chunk", "backward_microbatch") if kind == OpKind.FORWARD_BACKWARD else ():
        node.field(member)
    nanobatches = node.optional("nanobatches")
    return PlannedOp(
        op=OpKind(kind),
        chunk=node.field("chunk").integer(minimum=0),
        microbatch=node.field("microbatch").integer(minimum=0),
        sm_clock_mhz=node.field("sm_clock_mhz").integer(minimum=1),
        backward_chunk=None if backward_chunk is None else backward_chunk.integer(minimum=0),
        backward_microbatch=None if backward is None else backward.integer(minimum=0),
        nanobatches=1 if nanobatches is None else nanobatches.integer(minimum=1),
        partitions=partitions_from_json(node.optional("partitions")),
    )
