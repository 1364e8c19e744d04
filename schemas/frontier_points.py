"""The points of a frontier, and the table that its file keeps them in."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.ops import OpKey, Schedule
from energyopt.schemas.options import Option

ARROW_SCHEMA = pa.schema(
    [
        pa.field("names", pa.list_(pa.string()), nullable=False),
        pa.field("iteration_time_s", pa.float64(), nullable=False),
        pa.field("energy_j", pa.float64(), nullable=False),
        pa.field("lower_bound_j", pa.float64(), nullable=False),
        pa.field("gap", pa.float64(), nullable=False),
        pa.field("dynamic_j", pa.float64(), nullable=False),
        pa.field("static_j", pa.float64(), nullable=False),
        pa.field("average_power_w", pa.float64(), nullable=False),
        pa.field("marginal_power_w", pa.float64(), nullable=False),
        pa.field("clock_switches", pa.int32(), nullable=False),
        pa.field("choices", pa.list_(pa.int32()), nullable=False),
        pa.field("saved_waiting_j", pa.float64()),
        pa.field("saved_clock_j", pa.float64()),
        pa.field("saved_overlap_j", pa.float64()),
        pa.field("saved_sm_share_j", pa.float64()),
        pa.field("peak_power_w", pa.float64()),
    ]
)

SAVINGS = ("saved_waiting_j", "saved_clock_j", "saved_overlap_j", "saved_sm_share_j")
"""Columns that say where a plan's saving comes from."""

_LATER = (*SAVINGS, "peak_power_w")
"""Columns that earlier files lack, and that are null where nobody found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One plan. Energies cover `Frontier.gpus` GPUs for one iteration.

    names: of `fastest`, `max_clock_time` (the max-clock baseline's own time), `min_energy`, `best_edp`.
    static_j: wait power x iteration time x GPUs; dynamic_j is the rest.
    marginal_power_w: the bound's slope, joules saved by one more second of iteration time.
    clock_switches: changes between consecutive operations of a stage, summed over stages.
    choices: for each operation of `Frontier.schedule.ops` the index into the options of its key.
    saved_..._j: where what the plan saves against the max-clock baseline comes from; the four add up to it, and are
        None where nobody found out. waiting: static energy, of an iteration that is shorter (negative if longer).
        The others are dynamic energy, in this order: lower clocks of what runs without a plan; overlapping, with
        the SMs that the library chooses; other SM counts and launch points than that.
    peak_power_w: the highest sum over the GPUs that lasts for `Frontier.peak_lasts_s`; None where nobody found out.
    """

    names: tuple[str, ...]
    iteration_time_s: float
    energy_j: float
    lower_bound_j: float
    gap: float
    dynamic_j: float
    static_j: float
    average_power_w: float
    marginal_power_w: float
    clock_switches: int
    choices: tuple[int, ...]
    saved_waiting_j: float | None = None
    saved_clock_j: float | None = None
    saved_overlap_j: float | None = None
    saved_sm_share_j: float | None = None
    peak_power_w: float | None = None


def points_to_table(points: tuple[FrontierPoint, ...]) -> pa.Table:
    """One row for each point."""
    return arrow_table(
        {name: [getattr(point, name) for point in points] for name in ARROW_SCHEMA.names}, ARROW_SCHEMA
    )


def points_from_table(
    path: Path, table: pa.Table, schedule: Schedule, options: dict[OpKey, tuple[Option, ...]]
) -> tuple[FrontierPoint, ...]:
    """The counterpart of `points_to_table`.

    Raises:
        FileFormatError: a column, a value or a choice that cannot be; names the column and the row.
    """
    records = _checked(path, table).select(ARROW_SCHEMA.names).to_pylist()
    keys = [op.key for op in schedule.ops]
    if (missing := next((key for key in keys if key not in options), None)) is not None:
        raise FileFormatError(f"{path}: no options for the {missing} @ metadata.options")
    counts = [len(options[key]) for key in keys]
    for row, record in enumerate(records):
        _check_values(path, row, record)
        _check_choices(path, row, record["choices"], counts)
        record["names"], record["choices"] = tuple(record["names"]), tuple(record["choices"])
    _check_order(path, records)
    return tuple(FrontierPoint(**record) for record in records)


def _checked(path: Path, table: pa.Table) -> pa.Table:
    for expected in ARROW_SCHEMA:
        index = table.schema.get_field_index(expected.name)
        if index < 0 and expected.name in _LATER:
            table = table.append_column(expected, pa.nulls(table.num_rows, expected.type))
        elif index < 0 or table.schema.field(index).type != expected.type:
            raise FileFormatError(f"{path}: column {expected.name!r} is missing or not {expected.type}")
    return table


def _check_order(path: Path, records: list[dict[str, Any]]) -> None:
    """Whoever chooses a point relies on it: the fastest first, and each slower one cheaper."""
    if not records:
        raise FileFormatError(f"{path}: a frontier without points; plan it again")
    for row, (faster, slower) in enumerate(pairwise(records), start=1):
        if slower["iteration_time_s"] <= faster["iteration_time_s"]:
            raise FileFormatError(f"{path}: row {row} takes no more time than the row before it")
        if slower["energy_j"] >= faster["energy_j"]:
            raise FileFormatError(f"{path}: row {row} costs no less energy than the row before it")


def _check_values(path: Path, row: int, record: dict[str, Any]) -> None:
    for name, value in record.items():
        if value is None and name in _LATER:
            continue
        if value is None or (isinstance(value, list) and None in value):
            raise FileFormatError(f"{path}: column {name!r} is null in row {row}")
        if isinstance(value, float) and not math.isfinite(value):
            raise FileFormatError(
                f"{path}: column {name!r} is {value} in row {row}; expected a finite number"
            )
    for name in ("iteration_time_s", "energy_j", "average_power_w"):
        if record[name] <= 0:
            raise FileFormatError(f"{path}: column {name!r} is not positive in row {row}")


def _check_choices(path: Path, row: int, choices: list[int], counts: list[int]) -> None:
    if len(choices) != len(counts):
        raise FileFormatError(f"{path}: row {row} chooses for {len(choices)} of {len(counts)} operations")
    for index, (choice, count) in enumerate(zip(choices, counts, strict=True)):
        if not 0 <= choice < count:
            raise FileFormatError(f"{path}: row {row} chooses option {choice} of {count} @ choices[{index}]")
