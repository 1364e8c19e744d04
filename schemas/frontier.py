"""frontier.parquet: the non-dominated points of one job, each with its plan and its proven lower bound.

One row per point, fastest first. The metadata object holds what the points share: the pipeline, the
operations (`schedule`, one text per stage in PyTorch's notation), the options per (stage, chunk, kind), and
the baselines.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from energyopt import __version__
from energyopt.schemas.errors import ScheduleError
from energyopt.schemas.files import compact_json, write_atomically
from energyopt.schemas.frontier_points import FrontierPoint, points_from_table, points_to_table
from energyopt.schemas.nodes import Node, check_header
from energyopt.schemas.notation import format_order, parse_order
from energyopt.schemas.ops import Op, OpKey, Schedule
from energyopt.schemas.options import Option, options_from_json, options_to_json
from energyopt.schemas.parquet import open_parquet
from energyopt.schemas.pipeline import Pipeline, pipeline_from_json
from energyopt.schemas.plan import Baseline

FORMAT = "energyopt-frontier"
SCHEMA_VERSION = 1

_ONLY = ("clocks", "overlap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """A frontier in memory; `single_clocks` holds every clock that the whole job could run at.

    clock_switch_latency_s: how long a clock takes to land on this GPU; None where nobody measured it.
    max_switches, min_dwell_s: the limits on clock changes that all plans obey; None and 0 for no limits.
    only: `clocks` or `overlap`, where plans were not free to choose everything that the profile offers.
    thinning_error: how much dearer an operation can be for the options that were left out to keep the search small,
        relative; the points' gaps contain it.
    switch_time_s, switch_energy_j: what a clock change between two partitions of an operation was taken to cost on
        one GPU; None where they had to share a clock.
    peak_power_cap_w: the cap on the peak power of all `gpus` that all plans obey; None for none. Bounds are those
        without it. peak_lasts_s: how long power has to last to be a peak; 0 for any time.
    """

    profile_sha256: str
    device_name: str
    device_kind: str
    scope: str
    wait_power_w: float
    clock_switch_latency_s: float | None = None
    max_switches: int | None = None
    min_dwell_s: float = 0.0
    only: str | None = None
    thinning_error: float = 0.0
    switch_time_s: float | None = None
    switch_energy_j: float | None = None
    peak_power_cap_w: float | None = None
    peak_lasts_s: float = 0.0
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

    def chosen_options(self, index: int) -> list[Option]:
        """What each operation of `Schedule.ops` runs at in a point.

        Raises:
            IndexError: no such point.
        """
        choices = self.points[index].choices
        return [self.options[op.key][choice] for op, choice in zip(self.schedule.ops, choices, strict=True)]


def write_frontier(path: Path, frontier: Frontier) -> None:
    """Write a frontier atomically; equal frontiers give equal bytes."""
    table = points_to_table(frontier.points)
    table = table.replace_schema_metadata({"energyopt": compact_json(shared_to_json(frontier))})
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_frontier(path: Path) -> Frontier:
    """Read and check a frontier file.

    Raises:
        FileFormatError: names the file and the field at fault.
    """
    table, header = open_parquet(path)
    check_header(header, FORMAT, SCHEMA_VERSION)
    schedule = _schedule(header)
    found = [options_from_json(node) for node in header.field("options").items()]
    options = dict(found)
    if len(options) < len(found):
        header.field("options").fail("two entries for one stage, chunk and op")
    baselines = header.field("baselines")
    latency = header.field("device").optional("clock_switch_latency_s")
    only, thinning = header.optional("only"), header.optional("thinning_error")
    switches, dwell = header.optional("max_switches"), header.optional("min_dwell_s")
    mixed = header.optional("mixed_clocks")
    cap, lasts = header.optional("peak_power_cap_w"), header.optional("peak_lasts_s")
    return Frontier(
        profile_sha256=header.field("profile").field("sha256").text(),
        device_name=header.field("device").field("name").text(),
        device_kind=header.field("device").field("kind").text(),
        scope=header.field("device").field("scope").text(),
        wait_power_w=header.field("device").field("wait_power_w").number(minimum=0.0),
        clock_switch_latency_s=None if latency is None else latency.number(minimum=0.0),
        max_switches=None if switches is None else switches.integer(minimum=0),
        min_dwell_s=0.0 if dwell is None else dwell.number(minimum=0.0),
        only=None if only is None else _only(only),
        thinning_error=0.0 if thinning is None else thinning.number(minimum=0.0),
        peak_power_cap_w=None if cap is None else cap.number(minimum=0.0),
        peak_lasts_s=0.0 if lasts is None else lasts.number(minimum=0.0),
        switch_time_s=None if mixed is None else mixed.field("switch_time_s").number(minimum=0.0),
        switch_energy_j=None if mixed is None else mixed.field("switch_energy_j").number(minimum=0.0),
        gpus=header.field("gpus").integer(minimum=1),
        pipeline=pipeline_from_json(header.field("pipeline")),
        schedule=schedule,
        options=options,
        max_clock=_baseline(baselines.field("max_clock")),
        single_clocks=tuple(_baseline(node) for node in baselines.field("single_clocks").items()),
        points=points_from_table(path, table, schedule, options),
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
        **({} if frontier.only is None else {"only": frontier.only}),
        **({"thinning_error": frontier.thinning_error} if frontier.thinning_error else {}),
        **_mixed_clocks_to_json(frontier),
        **({} if frontier.peak_power_cap_w is None else {"peak_power_cap_w": frontier.peak_power_cap_w}),
        **({"peak_lasts_s": frontier.peak_lasts_s} if frontier.peak_lasts_s else {}),
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


def _mixed_clocks_to_json(frontier: Frontier) -> dict[str, Any]:
    cost = {"switch_time_s": frontier.switch_time_s, "switch_energy_j": frontier.switch_energy_j}
    return {} if frontier.switch_time_s is None else {"mixed_clocks": cost}


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


def _only(node: Node) -> str:
    if node.text() not in _ONLY:
        node.fail(f"{node.text()!r} is none of {', '.join(_ONLY)}")
    return node.text()


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
