"""What the schedule objects of PyTorch's pipelining (2.5 and later) say about the run and its operations."""

import inspect
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from energyopt.applier.runtime.facts import PlacedOp, RunFacts
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.notation import parse_op
from energyopt.schemas.ops import Op, OpKind

METHODS = {  # what is hooked, with the parameters that are read
    "_PipelineStageBase.forward_one_chunk": ("fwd_chunk_id",),
    "_PipelineStageBase.backward_one_chunk": ("bwd_chunk_id", "full_backward"),
    "_PipelineStageBase.backward_weight_one_chunk": ("bwd_chunk_id",),
    "_PipelineSchedule._maybe_compute_loss": (),
    "PipelineScheduleSingle.step": (),
    "PipelineScheduleMulti.step": (),
}
_FIELDS = {  # what is read of objects, by the class whose constructor sets it
    "_PipelineStageBase": ("stage_index", "num_stages", "group_rank", "group_size", "device"),
    "_PipelineSchedule": ("_n_microbatches", "_has_backward"),
    "PipelineScheduleSingle": ("_stage",),
    "PipelineScheduleMulti": ("_stages", "pipeline_order"),
}
_NAMES = {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b", "ScheduleInterleaved1F1B": "interleaved-1f1b"}

Call = tuple[OpKind, int, int]
"""A call of a stage's method: what it runs, the stage's index in the model and the microbatch."""


class Program(NamedTuple):
    """What a schedule runs on this rank.

    actions: PyTorch's list; None for a schedule that runs by its own code.
    chunk_of: the chunk by stage index; a rank's chunks are counted in the model's order.
    ops: the operations of the list, in its order.
    joined: by either half of a forward that runs with a backward: the operation, and the other half.
    """

    actions: list[Any] | None
    chunk_of: dict[int, int]
    ops: dict[Any, Op]
    joined: dict[Call, tuple[Op, Call]]


def missing_points(module: ModuleType) -> list[str]:
    """What this version lacks of the methods that are hooked and of what is read of objects."""
    missing: list[str] = []
    for path, names in METHODS.items():
        owner, name = path.split(".")
        method = getattr(getattr(module, owner, None), name, None)
        known = inspect.signature(method).parameters if method is not None else ()
        missing += [f"{path}({name})" for name in names if name not in known] if known else [path]
    for owner, names in _FIELDS.items():
        constructor: Any = getattr(getattr(module, owner, None), "__init__", None)
        code = getattr(inspect.unwrap(constructor), "__code__", None)
        missing += [f"{owner}.{name}" for name in names if name not in getattr(code, "co_names", ())]
    return missing


def local_stages(schedule: Any) -> list[Any]:
    """This rank's stages, in the model's order."""
    stages = [schedule._stage] if hasattr(schedule, "_stage") else schedule._stages
    return sorted(stages, key=lambda stage: stage.stage_index)


def executed_actions(schedule: Any) -> list[Any] | None:
    """The list of actions that the schedule executes on this rank, if it goes by one.

    Single-stage schedules do not: theirs is for display, and 2.13's counts 1F1B's last stage from microbatch 1.
    """
    if hasattr(schedule, "_stage"):
        return None
    orders = getattr(schedule, "pipeline_order_with_comms", schedule.pipeline_order)
    actions: list[Any] | None = orders.get(schedule._stages[0].group_rank)
    return actions


def read_program(schedule: Any) -> Program:
    """Read what `schedule` runs on this rank: with the names and chunks that a plan from its CSV has."""
    stages = local_stages(schedule)
    chunk_of = {stage.stage_index: chunk for chunk, stage in enumerate(stages)}
    program = Program(executed_actions(schedule), chunk_of, {}, {})
    for action in program.actions or ():
        with suppress(ScheduleError):  # idle, communication, or an overlap of other halves: they count singly
            op = parse_op(str(action), stages[0].group_rank, chunk_of, "schedule")
            program.ops[action] = op
            if op.kind is OpKind.FORWARD_BACKWARD:
                _join(program, op, *action.sub_actions)
    return program


def describe(schedule: Any, program: Program) -> RunFacts:
    """Say where this rank stands in the run; torch.distributed is initialised."""
    from torch import __version__, distributed

    stages = local_stages(schedule)
    return RunFacts(
        framework=f"torch {__version__}",
        rank=distributed.get_rank(),
        world_size=distributed.get_world_size(),
        stage=stages[0].group_rank,
        stages=stages[0].group_size,
        chunks=len(stages),
        microbatches=schedule._n_microbatches,
        schedule=_name(schedule, stages),
        device_ordinal=_device_ordinal(stages[0].device),
        order=_order(schedule, program),
    )


def _join(program: Program, op: Op, forward: Any, backward: Any) -> None:
    first = (OpKind.FORWARD, forward.stage_index, forward.microbatch_index)
    second = (OpKind.BACKWARD, backward.stage_index, backward.microbatch_index)
    program.joined[first] = op, second
    program.joined[second] = op, first


def _name(schedule: Any, stages: list[Any]) -> str | None:
    """Energyopt's name, if it stands for the same order.

    PyTorch's interleaved schedule forms other groups where the ranks do not divide the microbatches, and its
    warm-up is not 1F1B's where a rank has one stage.
    """
    name = type(schedule).__name__
    if not type(schedule).__module__.startswith("torch."):
        return None
    whole_groups = schedule._n_microbatches % stages[0].group_size == 0
    if name == "ScheduleInterleaved1F1B" and not (whole_groups and len(stages) > 1):
        return None
    return _NAMES.get(name)


def _order(schedule: Any, program: Program) -> tuple[PlacedOp, ...] | None:
    if program.actions is None or not getattr(schedule, "use_full_backward", True):
        return None  # 2.5 lists its backwards for the input as B
    ops = program.ops.values()
    return tuple(PlacedOp(kind=op.kind, chunk=op.chunk, microbatch=op.microbatch) for op in ops)


def _device_ordinal(device: Any) -> int | None:
    import torch

    device = torch.device(device)
    if device.type != "cuda":
        return None
    return device.index if device.index is not None else torch.cuda.current_device()
