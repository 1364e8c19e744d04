"""What fewer clock changes cost, as tables and as values that JSON can hold."""

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from energyopt.planner.tables import Table
from energyopt.planner.wording import MISSING, gpus, number, percent, percent_change

if TYPE_CHECKING:
    from energyopt.planner.limits.tradeoff import Tradeoff, TradeoffPoint

COLUMNS = (
    "plans",
    "clock switches",
    "time_s",
    "energy_j",
    "saving",
    "energy vs free",
    "bound_j",
    "gap",
)


def tradeoff_tables(tradeoff: "Tradeoff") -> tuple[Table, ...]:
    """One table for each slowdown; savings are against the max-clock baseline, bounds of each row's own kind."""
    return tuple(
        Table(
            title=f"clock changes at {slowdown:g} x the max-clock time ({gpus(tradeoff.gpus)})",
            columns=COLUMNS,
            rows=tuple(_row(point) for point in points),
        )
        for slowdown, points in groupby(tradeoff.points, key=lambda point: point.slowdown)
    )


def tradeoff_to_json(tradeoff: "Tradeoff") -> dict[str, Any]:
    """The trade-off in full; energies cover `gpus` GPUs, and null is where no plan was found."""
    return asdict(tradeoff)


def _row(point: "TradeoffPoint") -> tuple[str, ...]:
    return (
        point.kind,
        MISSING if point.clock_switches is None else str(point.clock_switches),
        number(point.iteration_time_s, "s"),
        number(point.energy_j, "J"),
        percent(point.saving),
        percent_change(point.above_free),
        number(point.lower_bound_j, "J"),
        percent(point.gap),
    )
