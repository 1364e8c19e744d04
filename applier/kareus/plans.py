"""A pair of files as a plan: clocks in Zeus' form, and how each partition communicates.

Settings come in one of two forms: with recomputation one tuple for each operation in the order of execution, such
as ('forward', '4-8-24-1024', '0-6-18-1024'); without, a pair of such tuples for each microbatch. The numbers of
texts tell the layout, and whether the backward runs the forward's partitions again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from energyopt.applier.kareus.boards import check_sms, sms_of
from energyopt.applier.kareus.configs import BLOCK_THREADS, CommConfig, parse_config
from energyopt.applier.kareus.layouts import CONTEXT, LAYOUTS, NANOBATCHES, Layout
from energyopt.applier.zeus import plan_from_zeus, read_literal
from energyopt.schemas.errors import RequestError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import named
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

_KINDS = (OpKind.FORWARD, OpKind.BACKWARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class KareusPlan:
    """A plan, and what the files say that it has no place for."""

    plan: Plan
    layout: Layout
    recompute: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """The settings of one operation; its configs are the texts that follow its kind."""

    node: Node
    kind: OpKind
    configs: tuple[CommConfig, ...]


def plan_from_kareus(
    freqs: Path,
    scheds: Path,
    *,
    device_name: str,
    tensor_parallel: int = 1,
    context_parallel: int = 1,
    sms: int | None = None,
) -> KareusPlan:
    """The plan that a pair of files stands for; nothing is predicted.

    tensor_parallel, context_parallel: degrees of the job, which the files do not say; totals of the plan cover
        all its GPUs.
    sms: SMs of the GPU, where its name does not say or says it wrongly.

    Raises:
        FileFormatError: a file that is damaged, or the two do not belong together; names file and place.
        RequestError: a context degree that does not fit the partitions.
    """
    plan = plan_from_zeus(freqs, device_name=device_name)
    root = Node(scheds, "$", read_literal(scheds))
    stages = list(root.items())
    if len(stages) != len(plan.stages):
        root.fail(f"{len(stages)} stages, but {freqs.name} has {len(plan.stages)}")
    entries = [_in_order(node, ops, freqs) for node, ops in zip(stages, plan.stages, strict=True)]
    _check_sms(entries, device_name, sms_of(device_name, sms))
    layout, recompute = _shape(entries)
    _check_degrees(layout, context_parallel)
    job = replace(plan.pipeline, tensor_parallel=tensor_parallel, context_parallel=context_parallel)
    return KareusPlan(
        plan=replace(
            plan,
            pipeline=job,
            gpus=plan.gpus * tensor_parallel * context_parallel,
            stages=tuple(
                tuple(_planned(op, one, layout, recompute) for op, one in zip(ops, own, strict=True))
                for ops, own in zip(plan.stages, entries, strict=True)
            ),
        ),
        layout=layout,
        recompute=recompute,
        notes=_not_kept(entries, layout, recompute),
    )


def _in_order(stage: Node, ops: Sequence[PlannedOp], freqs: Path) -> list[_Entry]:
    """The settings of a stage, one for each operation in the order of execution."""
    found = list(stage.items())
    paired = bool(found) and all(_is_pair(one) for one in found)
    entries = _of_microbatches(stage, found, ops) if paired else [_entry(one) for one in found]
    if len(entries) != len(ops):
        stage.fail(f"{len(entries)} operations, but {freqs.name} has {len(ops)} in this stage")
    for entry, op in zip(entries, ops, strict=True):
        if entry.kind is not op.op:
            entry.node.fail(f"{entry.kind}, where {freqs.name} has {op.op}")
    return entries


def _is_pair(node: Node) -> bool:
    value = node.value
    return isinstance(value, list) and bool(value) and all(isinstance(one, list) for one in value)


def _of_microbatches(stage: Node, pairs: Sequence[Node], ops: Sequence[PlannedOp]) -> list[_Entry]:
    """Pairs of forward and backward by microbatch, in the order of the operations."""
    by_kind: dict[OpKind, list[_Entry]] = {kind: [] for kind in _KINDS}
    for pair in pairs:
        members = [_entry(one) for one in pair.items()]
        if [one.kind for one in members] != list(_KINDS):
            pair.fail("expected a pair of forward and backward")
        for one in members:
            by_kind[one.kind].append(one)
    counts = Counter(op.op for op in ops)
    if counts[OpKind.FORWARD] != len(pairs):
        stage.fail(f"{len(pairs)} microbatches, but the clocks are for {counts[OpKind.FORWARD]}")
    return [by_kind[op.op][op.microbatch] for op in ops]


def _entry(node: Node) -> _Entry:
    parts = list(node.items())
    if not parts:
        node.fail("missing instruction")
    if parts[0].text() not in list(_KINDS):
        parts[0].fail(f"unknown instruction {parts[0].text()[:40]!r}; Kareus knows {', '.join(_KINDS)}")
    configs = tuple(parse_config(one) for one in parts[1:])
    return _Entry(node, OpKind(parts[0].value), configs)


def _shape(stages: Sequence[Sequence[_Entry]]) -> tuple[Layout, bool]:
    """The layout, and whether the backward recomputes, from the numbers of texts; the same everywhere."""
    first = {kind: next(one for one in stages[0] if one.kind is kind) for kind in _KINDS}
    layout = _layout(first[OpKind.FORWARD])
    recompute = _recomputes(first[OpKind.BACKWARD], layout)
    for entries in stages:
        for one in entries:
            expected = len(layout.runs(one.kind, recompute=recompute))
            if len(one.configs) != expected:
                one.node.fail(f"{len(one.configs)} settings, where the first {one.kind} has {expected}")
    return layout, recompute


def _layout(forward: _Entry) -> Layout:
    found = next((one for one in LAYOUTS if len(forward.configs) == len(one.forward)), None)
    if found is None:
        known = " or ".join(f"{len(one.forward)} ({one.name})" for one in LAYOUTS)
        forward.node.fail(f"{len(forward.configs)} settings; a forward of Kareus has {known}")
    return found


def _recomputes(backward: _Entry, layout: Layout) -> bool:
    alone, again = (len(layout.runs(OpKind.BACKWARD, recompute=one)) for one in (False, True))
    if len(backward.configs) not in (alone, again):
        backward.node.fail(
            f"{len(backward.configs)} settings; a {layout.name} backward of Kareus has {alone}, "
            f"or {again} with recomputation"
        )
    return len(backward.configs) == again


def _check_sms(stages: Sequence[Sequence[_Entry]], device_name: str, sms: int | None) -> None:
    """No partition communicates on more SMs than the GPU has."""
    for entries in stages:
        for entry in entries:
            for node, config in zip(list(entry.node.items())[1:], entry.configs, strict=True):
                check_sms(node, config.sms, device_name, sms)


def _check_degrees(layout: Layout, context_parallel: int) -> None:
    if context_parallel > 1 and layout is not CONTEXT:
        raise RequestError(
            f"the settings are of a {layout.name} layer, which has context degree 1, not {context_parallel}"
        )


def _planned(op: PlannedOp, entry: _Entry, layout: Layout, recompute: bool) -> PlannedOp:
    names = [name for name, _ in layout.runs(op.op, recompute=recompute)]
    pairs = zip(names, (one.partition_config for one in entry.configs), strict=True)
    return replace(op, nanobatches=NANOBATCHES, partitions=named(list(pairs)))


def _not_kept(stages: Sequence[Sequence[_Entry]], layout: Layout, recompute: bool) -> tuple[str, ...]:
    """Window ends and block sizes other than those that an export writes."""
    found: Counter[str] = Counter()
    for entries in stages:
        for one in entries:
            found.update(_unusual(one, layout, recompute))
    return tuple(
        f"{what} ({count} times): a plan file does not keep it" for what, count in sorted(found.items())
    )


def _unusual(entry: _Entry, layout: Layout, recompute: bool) -> Iterator[str]:
    runs = layout.runs(entry.kind, recompute=recompute)
    for (name, partition), config in zip(runs, entry.configs, strict=True):
        if config.block != BLOCK_THREADS:
            yield f"{name} has blocks of {config.block} threads"
        if config.start is not None and config.end != partition.usual_end(config.start):
            yield f"{name} is waited for at kernel {config.end or 'none'}"
