"""Frequency plans of Zeus' pipeline frequency server: a list of per-stage lists of (instruction, MHz).

Zeus runs such a file as code; here it is read as data. Zeus knows `forward` and `backward` of one model chunk
per stage and tells microbatches apart by counting, so a plan that needs more cannot be written.
"""

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import FileFormatError, RequestError
from energyopt.schemas.files import read_text
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan
from energyopt.schemas.planned_ops import PlannedOp

ZeusList = tuple[tuple[tuple[OpKind, int], ...], ...]

IMPORTED_SCHEDULE = "imported"
_KNOWN = (OpKind.FORWARD, OpKind.BACKWARD)
_HIGHEST_CLOCK_MHZ = 5000
_SIZE_LIMIT = 16 * 2**20  # bytes; some 800,000 operations, which take 1-2 GB while they are parsed


def zeus_text(plan: Plan) -> str:
    """The content of the file: one line per stage, then what the plan predicts as comments.

    Raises:
        RequestError: the plan has several chunks per stage, an operation that Zeus does not know, or says more of
            operations than their clocks.
    """
    if any(op.nanobatches > 1 or op.partitions for ops in plan.stages for op in ops):
        raise RequestError(
            "a list for Zeus holds clocks alone, and this plan cuts microbatches or overlaps partitions; "
            "write plan.json, or plan with --only clocks"
        )
    return clock_list_text(plan)


def clock_list_text(plan: Plan) -> str:
    """The clocks of a plan in Zeus' form, whatever else it says.

    Raises:
        RequestError: the plan has several chunks per stage, or an operation that Zeus does not know.
    """
    if plan.pipeline.chunks_per_stage > 1:
        raise RequestError(
            f"Zeus knows one model chunk per stage, this plan has {plan.pipeline.chunks_per_stage}; "
            "write plan.json instead"
        )
    lines = [_stage_text(stage, ops) for stage, ops in enumerate(plan.stages)]
    return "\n".join(["[", *lines, "]", *prediction_comments(plan)]) + "\n"


def read_zeus_list(path: Path) -> ZeusList:
    """Read a frequency plan as data, without running it.

    Raises:
        FileFormatError: too large, no list of lists of (instruction, MHz), or a value that cannot be; gives
            the place, such as `missing clock @ $[3][0]`.
    """
    root = Node(path, "$", read_literal(path))
    stages = tuple(tuple(_entry(node) for node in stage.items()) for stage in root.items())
    if not stages:
        root.fail("missing stages")
    for number, stage in enumerate(stages):
        if not stage:
            Node(path, f"$[{number}]", None).fail("missing operations")
    return stages


def plan_from_zeus(path: Path, *, device_name: str) -> Plan:
    """The plan that a frequency plan stands for; microbatches are numbered by counting, nothing is predicted.

    The schedule is `1f1b` or `gpipe` where every stage's order is exactly that one, else `imported`.

    Raises:
        FileFormatError: see `read_zeus_list`; or stages differ in their number of forwards and backwards.
    """
    listed = read_zeus_list(path)
    microbatches = _microbatches(path, listed)
    orders = [[kind for kind, _ in stage] for stage in listed]
    stages = len(listed)
    return Plan(
        profile_sha256=None,
        device_name=device_name,
        device_kind="imported",
        pipeline=Pipeline(stages=stages, microbatches=microbatches, schedule=_schedule(orders, microbatches)),
        gpus=stages,
        predicted=None,
        max_clock=None,
        best_single_clock=None,
        stages=tuple(_planned(path, number, stage) for number, stage in enumerate(listed)),
    )


def _stage_text(stage: int, ops: Sequence[PlannedOp]) -> str:
    for op in ops:
        if op.op not in _KNOWN or op.chunk:
            raise RequestError(
                f"Zeus knows forward and backward of one model chunk per stage, but stage {stage} of this "
                f"plan runs {op.op} of chunk {op.chunk}; write plan.json instead"
            )
    pairs = ", ".join(f"('{op.op}', {op.sm_clock_mhz})" for op in ops)
    return f"[{pairs}],"


def prediction_comments(plan: Plan) -> list[str]:
    """What the plan predicts, as comment lines; nothing of it is foreign text, which could hold a line break."""
    if plan.predicted is None:
        return [f"# nothing predicted; {plan.gpus} GPUs"]
    return [
        f"# predicted iteration time: {plan.predicted.iteration_time_s:.6f} s",
        f"# predicted iteration energy: {plan.predicted.energy_j:.3f} J on {plan.gpus} GPUs",
    ]


def read_literal(path: Path) -> Any:
    """The value that a file of Python literals holds, without running it; tuples come as lists.

    Raises:
        FileFormatError: too large, cut short, or more than lists, tuples, texts and numbers.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from error
    if size > _SIZE_LIMIT:
        raise FileFormatError(f"{path}: {size} bytes; a frequency plan has at most {_SIZE_LIMIT}")
    text = read_text(path)
    try:
        return _with_lists(ast.literal_eval(text))
    except SyntaxError as error:
        place = f" (line {error.lineno})" if error.lineno else ""
        raise FileFormatError(f"{path}: not a Python list, or cut short: {error.msg}{place}") from error
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"{path}: holds more than lists, tuples, texts and numbers") from error


def _with_lists(value: Any) -> Any:
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _entry(node: Node) -> tuple[OpKind, int]:
    parts = list(node.items())
    if len(parts) < 2:
        node.fail("missing clock" if parts else "missing instruction and clock")
    if len(parts) > 2:
        node.fail(f"expected (instruction, MHz), found {len(parts)} values")
    name, clock = parts[0].text(), parts[1].integer(minimum=1)
    if name not in list(_KNOWN):
        parts[0].fail(f"unknown instruction {name!r}; Zeus knows {', '.join(_KNOWN)}")
    if clock > _HIGHEST_CLOCK_MHZ:
        parts[1].fail(f"{clock} is not a clock in MHz")
    return OpKind(name), clock


def _microbatches(path: Path, listed: ZeusList) -> int:
    """The number of forwards, and of backwards, that every stage has."""
    expected = sum(kind is OpKind.FORWARD for kind, _ in listed[0])
    for number, stage in enumerate(listed):
        found = Counter(kind for kind, _ in stage)
        for kind in _KNOWN:
            if found[kind] != expected or not expected:
                Node(path, f"$[{number}]", None).fail(
                    f"{found[kind]} times {kind}, where the first stage has {expected} times forward; "
                    "every stage runs each microbatch forward and backward once"
                )
    return expected


def _planned(path: Path, number: int, stage: Sequence[tuple[OpKind, int]]) -> tuple[PlannedOp, ...]:
    seen: Counter[OpKind] = Counter()
    planned = []
    for index, (kind, clock) in enumerate(stage):
        planned.append(PlannedOp(op=kind, chunk=0, microbatch=seen[kind], sm_clock_mhz=clock))
        seen[kind] += 1
        if seen[OpKind.BACKWARD] > seen[OpKind.FORWARD]:
            Node(path, f"$[{number}][{index}]", None).fail(
                f"backward of microbatch {seen[kind] - 1} comes before its forward"
            )
    return tuple(planned)


def _schedule(orders: Sequence[list[OpKind]], microbatches: int) -> str:
    warm_ups = {
        "1f1b": [min(len(orders) - 1 - stage, microbatches) for stage in range(len(orders))],
        "gpipe": [microbatches] * len(orders),
    }
    for name, warm_up in warm_ups.items():
        if all(order == _order(one, microbatches) for order, one in zip(orders, warm_up, strict=True)):
            return name
    return IMPORTED_SCHEDULE


def _order(warm_up: int, microbatches: int) -> list[OpKind]:
    """Some forwards, then forward and backward in turn, then the backwards that are left."""
    steady = [OpKind.FORWARD, OpKind.BACKWARD] * (microbatches - warm_up)
    return [OpKind.FORWARD] * warm_up + steady + [OpKind.BACKWARD] * warm_up
