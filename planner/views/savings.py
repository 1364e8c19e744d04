"""Where the savings of a frontier's points come from."""

from typing import TYPE_CHECKING

from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, gpus, number, percent_change, relative
from energyopt.schemas.frontier_points import SAVINGS

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.frontier_points import FrontierPoint

_COLUMNS = (
    "point",
    "time_s",
    "saved_j",
    "waiting",
    "clock",
    "overlap",
    "SM share",
    "saved",
    "in nanobatches",
)


def savings_table(frontier: "Frontier") -> Table | None:
    """Shares of the max-clock baseline's energy; None where no plan overlaps anything, or nobody found out."""
    if not any(not one.is_plain for options in frontier.options.values() for one in options):
        return None
    if any(point.saved_waiting_j is None for point in frontier.points):
        return None
    rows = tuple(_row(frontier, index, point) for index, point in enumerate(frontier.points))
    title = f"energy saved against max clock, and by what ({gpus(frontier.gpus)})"
    return Table(title=title, columns=_COLUMNS, rows=rows)


def _row(frontier: "Frontier", index: int, point: "FrontierPoint") -> tuple[str, ...]:
    baseline_j = frontier.max_clock.energy_j
    saved_j = [getattr(point, name) for name in SAVINGS]
    shares = [percent_change(relative(baseline_j - one, baseline_j)) for one in saved_j]
    return (
        str(index),
        number(point.iteration_time_s, "s"),
        number(baseline_j - point.energy_j, "J"),
        *shares,
        percent_change(relative(point.energy_j, baseline_j)),
        _nanobatched(frontier, point),
    )


def _nanobatched(frontier: "Frontier", point: "FrontierPoint") -> str:
    """How many of the operations cut their microbatch, of all."""
    ops = frontier.schedule.ops
    if not ops:
        return MISSING
    cut = sum(
        frontier.options[op.key][choice].nanobatches > 1
        for op, choice in zip(ops, point.choices, strict=True)
    )
    return f"{cut} of {len(ops)}"
