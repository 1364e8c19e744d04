"""Power of one point over an iteration: average and peak of all GPUs, and of each node."""

from typing import TYPE_CHECKING, Any

from energyopt.planner.power.nodes import NodePower, node_powers
from energyopt.planner.power.over_time import loads_of_point
from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, gpus, number

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier


def power_tables(frontier: "Frontier", index: int, gpus_per_node: int) -> tuple[Table, ...]:
    """Power of a pipeline and of all replicas in step, and of each node of a pipeline.

    Raises:
        IndexError: no such point.
        RequestError: fewer than one GPU in a node.
    """
    found = power_to_json(frontier, index, gpus_per_node)
    return _totals(frontier, found), _nodes(frontier, found)


def power_to_json(frontier: "Frontier", index: int, gpus_per_node: int) -> dict[str, Any]:
    """The same as values, W; `gpus` says how many GPUs a figure covers.

    Raises:
        As `power_tables`.
    """
    loads, gpus_per_stage = loads_of_point(frontier, index), frontier.gpus // frontier.schedule.stages
    power = loads.of_pipeline(gpus_per_stage)
    nodes = node_powers(loads, gpus_per_stage, gpus_per_node, frontier.peak_lasts_s)
    return {
        "point": index,
        "gpus": frontier.gpus,
        "average_power_w": power.average_w,
        "peak_power_w": power.peak_w(frontier.peak_lasts_s),
        "peak_lasts_s": frontier.peak_lasts_s,
        "data_parallel": frontier.pipeline.data_parallel,
        "gpus_per_node": gpus_per_node,
        "nodes": [_node_to_json(node) for node in nodes],
    }


def _node_to_json(node: NodePower) -> dict[str, Any]:
    return {
        "first": node.first,
        "last": node.last,
        "stages": list(node.stages),
        "gpus": node.gpus,
        "average_power_w": node.average_w,
        "peak_power_w": node.peak_w,
    }


def _totals(frontier: "Frontier", found: dict[str, Any]) -> Table:
    """Replicas do the same at the same time, so that their peaks add up."""
    replicas, count = found["data_parallel"], found["gpus"]
    rows = [("one pipeline", *_figures(found, 1))]
    if replicas > 1:
        rows.append((f"all {replicas} replicas, in step", *_figures(found, replicas)))
    cap_w = frontier.peak_power_cap_w
    if cap_w is not None:
        rows.append(("cap on one pipeline", str(count), MISSING, number(cap_w, "W")))
    lasts = f", peaks of {found['peak_lasts_s']:g} s or more" if found["peak_lasts_s"] else ""
    return Table(
        title=f"power of point {found['point']}{lasts}",
        columns=("", "GPUs", "average power_w", "peak power_w"),
        rows=tuple(rows),
    )


def _nodes(frontier: "Frontier", found: dict[str, Any]) -> Table:
    """Stages by their numbers; nodes that hold as many GPUs of the same stages stand together."""
    rows = tuple(
        (
            _span(node["first"], node["last"]),
            _span(node["stages"][0], node["stages"][-1]),
            *_figures(node, 1),
        )
        for node in found["nodes"]
    )
    title = (
        f"power of each node of {gpus(found['gpus_per_node'])}, numbered stage by stage (one pipeline, "
        f"{gpus(frontier.gpus)})"
    )
    return Table(
        title=title, columns=("node", "stages", "GPUs", "average power_w", "peak power_w"), rows=rows
    )


def _figures(found: dict[str, Any], times: int) -> tuple[str, str, str]:
    return (
        str(found["gpus"] * times),
        number(found["average_power_w"] * times, "W"),
        number(found["peak_power_w"] * times, "W"),
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
