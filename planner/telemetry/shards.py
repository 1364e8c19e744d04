"""Reading a rank's shard (schemas.telemetry_shard) as columns."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.files import read_text
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.telemetry import ARROW_SCHEMA, ITERATION, OP
from energyopt.schemas.telemetry_shard import SHARD_FORMAT, SHARD_VERSION

Columns = dict[str, list[Any]]

_LONGEST_HEADER = 1 << 24

_OF_ITERATIONS = (
    *("alternative", "time_s", "energy_j", "achieved_sm_clock_mhz", "throttle", "clock_sets"),
    *("dropped_requests", "overhead_s", "helper_cpu_s"),
)
_OF_OPS = ("op", "chunk", "microbatch", "backward_chunk", "backward_microbatch")
_IN_OPS = ("start_s", "time_s", "sm_clock_mhz", "achieved_sm_clock_mhz", "throttle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One rank's part of a run.

    columns: of telemetry.parquet, as lists.
    cut_short: whether its last line is incomplete, as a killed run leaves it.
    """

    path: Path
    header: Node
    rank: int
    columns: Columns
    reports: tuple[str, ...]
    cut_short: bool


def read_shard(path: Path) -> Shard:
    """Read one shard.

    Raises:
        FileFormatError: no such file; names the line and the field.
    """
    lines = read_text(path).split("\n")
    if len(lines) == 1:
        raise FileFormatError(
            f"{path}: {'its first line is cut short' if lines[0] else 'empty'}, as by a kill"
        )
    cut_short = lines[-1] != ""
    header = Node(path, "line 1", _parsed(path, 1, lines[0]))
    check_header(header, SHARD_FORMAT, SHARD_VERSION)
    columns: Columns = {name: [] for name in ARROW_SCHEMA.names}
    reports = []
    ops = [_op(node) for node in header.field("ops").items()]
    place = (header.field("rank").integer(minimum=0), header.field("stage").integer(minimum=0))
    for number, line in enumerate(lines[1:-1], start=2):
        node = Node(path, f"line {number}", _parsed(path, number, line))
        if (report := node.optional("report")) is not None:
            reports.append(report.text())
        else:
            _add(columns, node, place, ops)
    return Shard(
        path=path, header=header, rank=place[0], columns=columns, reports=tuple(reports), cut_short=cut_short
    )


def is_shard(path: Path) -> bool:
    """Whether a file is such a shard, by its first line; a killed rank may leave an empty one or half a line."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
    except OSError:
        return False
    cut_short = path.suffix == ".jsonl" and not line.endswith(b"\n")
    return cut_short or SHARD_FORMAT.encode() in line


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: line {number} is not JSON, or cut short") from error


def _op(node: Node) -> tuple[Any, ...]:
    members = list(node.items())
    if len(members) != len(_OF_OPS):
        node.fail(f"expected {', '.join(_OF_OPS)}")
    kind, *numbers = members
    return (kind.text(), *(None if one.value is None else one.integer(minimum=0) for one in numbers))


def _add(columns: Columns, node: Node, place: tuple[int, int], ops: list[tuple[Any, ...]]) -> None:
    row = {"level": ITERATION, "rank": place[0], "stage": place[1]}
    row["iteration"] = node.field("iteration").integer(minimum=0)
    row |= {name: _value(node, name) for name in _OF_ITERATIONS}
    if row["time_s"] is None:
        node.field("time_s").fail("expected a number, found null")
    for name, column in columns.items():
        column.append(row.get(name))
    if rows := _checked(node.field("ops"), len(ops)):
        shared = {name: row[name] for name in ("rank", "stage", "iteration", "alternative")}
        _add_ops(columns, rows, ops, {"level": OP, **shared})


def _checked(node: Node, known: int) -> list[list[Any]]:
    """The operations of one iteration; all at once, for there are many."""
    rows: Any = node.value
    width = 1 + len(_IN_OPS)
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != width for row in rows):
        node.fail(f"expected lists of position, {', '.join(_IN_OPS)}")
    kinds = {type(value) for row in rows for value in row}
    if not kinds <= {int, float, type(None)}:
        node.fail("expected numbers")
    for row in rows:
        if not isinstance(row[0], int) or not 0 <= row[0] < known or row[2] is None:
            node.fail(f"{row} is none of the {known} operations of the header, with its time")
    return rows


def _add_ops(
    columns: Columns, rows: list[list[Any]], ops: list[tuple[Any, ...]], shared: dict[str, Any]
) -> None:
    positions, *values = zip(*rows, strict=True)
    found: dict[str, Any] = dict(zip(_IN_OPS, values, strict=True))
    found |= dict(zip(_OF_OPS, zip(*(ops[position] for position in positions), strict=True), strict=True))
    for name, column in columns.items():
        column.extend(found[name] if name in found else [shared.get(name)] * len(rows))


def _value(node: Node, name: str) -> int | float | None:
    member = node.optional(name)
    return None if member is None else member.number()
