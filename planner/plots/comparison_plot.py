"""Several frontiers of one job in one picture, with the max-clock baseline."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyopt.planner.plots.canvas import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILLION,
    new_figure,
    paper_style,
    write_title,
)
from energyopt.planner.plots.frontier_plot import add_saving_axis, padded
from energyopt.planner.views.frontier import job_title
from energyopt.planner.wording import gpus

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier

_COLOURS = (BLUE, ORANGE, GREEN)
_MARKERS = ("o", "s", "^", "v", "P", "X")


def draw_comparison(frontiers: Sequence["Frontier"], names: Sequence[str]) -> Figure:
    """Draw iteration time (s) against energy (J for `Frontier.gpus` GPUs) of every frontier's plans."""
    with paper_style():
        figure = new_figure(7.2, 4.6)
        axes = figure.add_subplot()
        for frontier, name, colour, marker in zip(
            frontiers, names, cycle(_COLOURS), cycle(_MARKERS), strict=False
        ):
            _draw_one(axes, frontier, name, colour, marker)
        _draw_baseline(axes, frontiers[0])
        _describe(figure, axes, frontiers)
    return figure


def _draw_one(axes: Axes, frontier: "Frontier", name: str, colour: str, marker: str) -> None:
    times = [point.iteration_time_s for point in frontier.points]
    energies = [point.energy_j for point in frontier.points]
    axes.plot(times, energies, marker=marker, color=colour, markersize=4.5, linewidth=1.0, label=name)


def _draw_baseline(axes: Axes, frontier: "Frontier") -> None:
    one = frontier.max_clock
    axes.plot(
        [one.iteration_time_s],
        [one.energy_j],
        "D",
        color=VERMILLION,
        markersize=7,
        linestyle="none",
        label="max clock, no plan",
    )


def _describe(figure: Figure, axes: Axes, frontiers: Sequence["Frontier"]) -> None:
    first = frontiers[0]
    points = [point for frontier in frontiers for point in frontier.points]
    axes.set_xlim(*padded([first.max_clock.iteration_time_s, *(one.iteration_time_s for one in points)]))
    axes.set_ylim(*padded([first.max_clock.energy_j, *(one.energy_j for one in points)]))
    write_title(figure, axes, job_title(first))
    axes.set_xlabel("iteration time (s)")
    axes.set_ylabel(f"energy of an iteration (J, {gpus(first.gpus)})")
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    add_saving_axis(axes, first.max_clock.energy_j)
