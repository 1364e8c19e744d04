"""frontier.parquet: the non-dominated points of one job, each with its plan and its proven lower bound.

One row per point, fastest first. The metadata object holds what the points share: the pipeline, the
operations (`schedule`, one text per stage in PyTorch's notation), the options per (stage, chunk, kind), and
the baselines.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from energyopt import __version__
from energyopt.schemas.columns import arrow_table
from energyopt.schemas.errors import FileFormatError, ScheduleError
from energyopt.schemas.files import compact_json, write_atomically
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.notation import format_order, parse_order
from energyopt.schemas.ops import Op, OpKey, Schedule
from energyopt.schemas.options import Option, options_from_json, options_to_json
from energyopt.schemas.parquet import open_parquet
from energyopt.schemas.pipeline import Pipeline, pipeline_from_json
from energyopt.schemas.plan import Baseline

FORMAT = "energyopt-frontier"
SCHEMA_VERSION = 1

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
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One plan. Energies cover `Frontier.gpus` GPUs for one iteration.

    names: of `fastest`, `max_clock_time` (the max-clock baseline's own time), `min_energy`, `best_edp`.
    static_j: wait power x iteration time x GPUs; dynamic_j is the rest.
    marginal_power_w: the bound's slope, joules saved by one more second of iteration time.
    clock_switches: changes between consecutive operations of a stage, summed over stages.
    choices: for each operation of `Frontier.schedule.ops` the index into the options of its key.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """A frontier in memory; `single_clocks` holds every clock that the whole job could run at.

    clock_switch_latency_s: how long a clock takes to land on this GPU; None where nobody measured it.
    max_switches, min_dwell_s: the limits on clock changes that all plans obey; None and 0 for no limits.
    """

    profile_sha256: str
    device_name: str
    device_kind: str
    scope: str
    wait_power_w: float
    clock_switch_latency_s: float | None = None
    max_switches: int | None = None
    min_dwell_s: float = 0.0
    gpus: int
    pipeline: Pipeline
    schedule: Schedule
    options: dict[OpKey, tuple[Option, ...]]
    max_clock: Baseline
    single_clocks: tuple[Baseline, ...]
    points: tuple[FrontierPoint, ...]

    def best_single_clock(self, deadline_s: float) -> Baseline | None:
        """The single clock of least energy that meets a deadline; None where no single clock does."""
        fitting = [one for one in self.single_clocks if one.iteration_time_s <= deadline_s]
        return min(fitting, key=lambda one: (one.energy_j, one.sm_clock_mhz or 0), default=None)


def write_frontier(path: Path, frontier: Frontier) -> None:
    """Write a frontier atomically; equal frontiers give equal bytes."""
    columns = {name: [getattr(point, name) for point in frontier.points] for name in ARROW_SCHEMA.names}
    table = arrow_table(columns, ARROW_SCHEMA)
    table = table.replace_schema_metadata({"energyopt": compact_json(shared_to_json(frontier))})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_frontier(path: Path) -> Frontier:
    """Read and check a frontier file.

    Raises:
        FileFormatError: names the file and the field at fault.
    """
    table, header = open_parquet(path)
    check_header(header, FORMAT, SCHEMA_VERSION)
    for expected in ARROW_SCHEMA:
        index = table.schema.get_field_index(expected.name)
        if index < 0 or table.schema.field(index).type != expected.type:
            raise FileFormatError(f"{path}: column {expected.name!r} is missing or not {expected.type}")
    schedule = _schedule(header)
    found = [options_from_json(node) for node in header.field("options").items()]
    options = dict(found)
    if len(options) < len(found):
        header.field("options").fail("two entries for one stage, chunk and op")
    baselines = header.field("baselines")
    latency = header.field("device").optional("clock_switch_latency_s")
    switches, dwell = header.optional("max_switches"), header.optional("min_dwell_s")
    return Frontier(
        profile_sha256=header.field("profile").field("sha256").text(),
        device_name=header.field("device").field("name").text(),
        device_kind=header.field("device").field("kind").text(),
        scope=header.field("device").field("scope").text(),
        wait_power_w=header.field("device").field("wait_power_w").number(minimum=0.0),
        clock_switch_latency_s=None if latency is None else latency.number(minimum=0.0),
        max_switches=None if switches is None else switches.integer(minimum=0),
        min_dwell_s=0.0 if dwell is None else dwell.number(minimum=0.0),
        gpus=header.field("gpus").integer(minimum=1),
        pipeline=pipeline_from_json(header.field("pipeline")),
        schedule=schedule,
        options=options,
        max_clock=_baseline(baselines.field("max_clock")),
        single_clocks=tuple(_baseline(node) for node in baselines.field("single_clocks").items()),
        points=_points(path, table.select(ARROW_SCHEMA.names).to_pylist(), schedule, options),
    )


def shared_to_json(frontier: Frontier) -> dict[str, Any]:
    """What the points share, as the file's metadata has it; options are of one GPU, baselines of all."""
    schedule = frontier.schedule
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "profile": {"sha256": frontier.profile_sha256},
        "device": {
            "name": frontier.device_name,
            "kind": frontier.device_kind,
            "scope": frontier.scope,
            "wait_power_w": frontier.wait_power_w,
            "clock_switch_latency_s": frontier.clock_switch_latency_s,
        },
        "gpus": frontier.gpus,
        "max_switches": frontier.max_switches,
        "min_dwell_s": frontier.min_dwell_s,
        "pipeline": frontier.pipeline.to_json(),
        "schedule": {
            "name": schedule.name,
            "microbatches": schedule.microbatches,
            "virtual_stages": [list(chunks) for chunks in schedule.virtual_stages],
            "orders": [format_order(order, schedule.virtual_stages) for order in schedule.orders],
        },
        "options": [options_to_json(key, found) for key, found in sorted(frontier.options.items())],
        "baselines": {
            "max_clock": _baseline_to_json(frontier.max_clock),
            "single_clocks": [_baseline_to_json(one) for one in frontier.single_clocks],
        },
    }


def _schedule(header: Node) -> Schedule:
    node = header.field("schedule")
    placement = tuple(
        tuple(chunk.integer(0) for chunk in stage.items()) for stage in node.field("virtual_stages").items()
    )
    orders = []
    for stage, order in enumerate(node.field("orders").items()):
        if stage >= len(placement):
            order.fail("more stages than virtual_stages has")
        orders.append(_order(order, stage, placement))
    if len(orders) < len(placement):
        node.field("orders").fail(f"{len(orders)} stages, but virtual_stages has {len(placement)}")
    return Schedule(
        name=node.field("name").text(),
        microbatches=node.field("microbatches").integer(1),
        virtual_stages=placement,
        orders=tuple(orders),
    )


def _order(node: Node, stage: int, placement: tuple[tuple[int, ...], ...]) -> tuple[Op, ...]:
    try:
        return parse_order(node.text(), stage, placement, f"stage {stage}")
    except ScheduleError as error:
        node.fail(str(error))


def _baseline_to_json(one: Baseline) -> dict[str, Any]:
    return {
        "sm_clock_mhz": one.sm_clock_mhz,
        "iteration_time_s": one.iteration_time_s,
        "energy_j": one.energy_j,
    }


def _baseline(node: Node) -> Baseline:
    clock, time_s = node.optional("sm_clock_mhz"), node.field("iteration_time_s").number(0.0)
    if time_s == 0:
        node.field("iteration_time_s").fail("expected a time above 0, found 0")
    return Baseline(
        sm_clock_mhz=None if clock is None else clock.integer(1),
        iteration_time_s=time_s,
        energy_j=node.field("energy_j").number(),
    )


def _points(
    path: Path, records: list[dict[str, Any]], schedule: Schedule, options: dict[OpKey, tuple[Option, ...]]
) -> tuple[FrontierPoint, ...]:
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
