"""Our plans as a pair of files that Kareus reads."""

from collections.abc import Iterable, Sequence

from energyopt.applier.kareus.configs import BLOCK_THREADS, KERNEL
from energyopt.applier.kareus.layouts import LAYOUTS, NANOBATCHES, Layout, LayoutPartition
from energyopt.applier.zeus import clock_list_text, prediction_comments
from energyopt.schemas.errors import RequestError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

_INSTEAD = "write plan.json instead"


def kareus_texts(plan: Plan) -> tuple[str, str]:
    """The content of the two files, clocks and settings.

    Windows end where the artifact's do, and blocks have its size.

    Raises:
        RequestError: the plan holds what the files cannot say: several chunks, other operations, a microbatch
            that is not cut in two, other partitions than a Kareus layout's, one without a number of SMs, or one
            with a clock of its own.
    """
    freqs = clock_list_text(plan)
    layout, recompute = _shape(plan)
    by_index = _uses_indices(plan)
    lines = [_stage_text(ops, layout, recompute, by_index) for ops in plan.stages]
    return freqs, "\n".join(["[", *lines, "]", *prediction_comments(plan)]) + "\n"


def _shape(plan: Plan) -> tuple[Layout, bool]:
    """The one layout whose partitions every operation names."""
    ops = [op for stage in plan.stages for op in stage]
    for op in ops:
        if op.nanobatches != NANOBATCHES:
            raise RequestError(
                f"Kareus cuts every microbatch into {NANOBATCHES} nanobatches, but this plan's {op.op} of "
                f"microbatch {op.microbatch} runs in {op.nanobatches}; {_INSTEAD}"
            )
    shapes = [(layout, recompute) for layout in LAYOUTS for recompute in (True, False)]
    for layout, recompute in shapes:
        if all(_names(op) == _expected(op, layout, recompute) for op in ops):
            return layout, recompute
    raise RequestError(_unlike(ops, shapes))


def _names(op: PlannedOp) -> set[str]:
    return {name for name, _ in op.partitions}


def _expected(op: PlannedOp, layout: Layout, recompute: bool) -> set[str]:
    return {name for name, _ in layout.runs(op.op, recompute=recompute)}


def _unlike(ops: Sequence[PlannedOp], shapes: Iterable[tuple[Layout, bool]]) -> str:
    """What keeps a plan from being of the layout that it is most like."""
    layout, recompute = max(shapes, key=lambda one: sum(_names(op) == _expected(op, *one) for op in ops))
    op = next(op for op in ops if _names(op) != _expected(op, layout, recompute))
    place = f"{op.op} of microbatch {op.microbatch}"
    if lacking := sorted(_expected(op, layout, recompute) - _names(op)):
        what = (
            f"Kareus needs the SMs of {', '.join(lacking)}, which this plan's {place} leaves to the library"
        )
        if _names(op) <= _expected(op, layout, recompute) and _names(op):
            return f"{what}; {_INSTEAD}"
    own = ", ".join(sorted(_names(op))) or "none"
    expected = ", ".join(sorted(_expected(op, layout, recompute)))
    return f"Kareus' {op.op} has the partitions {expected}, but this plan's {place} sets {own}; {_INSTEAD}"


def _uses_indices(plan: Plan) -> bool:
    configs = (config for stage in plan.stages for op in stage for _, config in op.partitions)
    return any((config.comm_launch or "").isdigit() for config in configs)


def _stage_text(ops: Sequence[PlannedOp], layout: Layout, recompute: bool, by_index: bool) -> str:
    """With recomputation in the order of execution; without, which Kareus expects so, in pairs by microbatch."""
    texts = {(op.op, op.microbatch): _op_text(op, layout, recompute, by_index) for op in ops}
    if recompute:
        return f"[{', '.join(texts[op.op, op.microbatch] for op in ops)}],"
    forwards = sorted(microbatch for kind, microbatch in texts if kind is OpKind.FORWARD)
    pairs = [f"({texts[OpKind.FORWARD, one]}, {texts[OpKind.BACKWARD, one]})" for one in forwards]
    return f"[{', '.join(pairs)}],"


def _op_text(op: PlannedOp, layout: Layout, recompute: bool, by_index: bool) -> str:
    configs = dict(op.partitions)
    texts = [
        _config_text(op, name, partition, configs[name], by_index)
        for name, partition in layout.runs(op.op, recompute=recompute)
    ]
    return f"({', '.join(map(repr, [str(op.op), *texts]))})"


def _config_text(
    op: PlannedOp, name: str, partition: LayoutPartition, config: PartitionConfig, by_index: bool
) -> str:
    place = f"{name} in this plan's {op.op} of microbatch {op.microbatch}"
    if config.sm_clock_mhz is not None:
        raise RequestError(f"Kareus knows no clock of a partition, but {place} has one; plan without them")
    if config.comm_sms is None:
        raise RequestError(f"Kareus needs a number of SMs, but {place} leaves it to the library; {_INSTEAD}")
    return f"{_window(place, partition, config, by_index)}-{config.comm_sms}-{BLOCK_THREADS}"


def _window(place: str, partition: LayoutPartition, config: PartitionConfig, by_index: bool) -> str:
    """Kareus' own two ways to write that it runs by itself go with indices and with names."""
    launch = config.comm_launch
    if config.execution is Execution.SEQUENTIAL or launch is None:
        return "-1--1" if by_index else "none-none"
    if not KERNEL.fullmatch(launch):
        raise RequestError(f"Kareus cannot say the launch of {place}, before {launch!a}; {_INSTEAD}")
    if launch.isdigit() and int(launch) > partition.window_end:
        raise RequestError(
            f"{place} launches before kernel {launch}; Kareus' windows there end at {partition.window_end}"
        )
    return f"{launch}-{partition.usual_end(launch) or 'none'}"
