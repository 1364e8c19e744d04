"""Iteration time against energy: the points, what is proven, and what one would do without a plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyopt.planner.arrays import Floats
from energyopt.planner.plots.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILLION,
    new_figure,
    paper_style,
    write_title,
)
from energyopt.planner.plots.labels import place_labels
from energyopt.planner.views.frontier import job_title
from energyopt.planner.wording import gpus
from energyopt.schemas.errors import RequestError

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier
    from energyopt.schemas.plan import Baseline

MARGIN = 0.07  # of the range, on each side


def draw_frontier(frontier: "Frontier") -> Figure:
    """Draw iteration time (s) against energy (J for `Frontier.gpus` GPUs).

    The time axis spans the frontier and the max-clock baseline; the legend counts single clocks beyond it.

    Raises:
        RequestError: the frontier holds no point.
    """
    if not frontier.points:
        raise RequestError("the frontier holds no point, so there is nothing to draw")
    with paper_style():
        figure = new_figure(7.2, 4.6)
        axes = figure.add_subplot()
        _draw_numbers(axes, frontier)
        _describe(figure, axes, frontier)
        add_saving_axis(axes, frontier.max_clock.energy_j)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        _draw_names(axes, frontier)
    return figure


def _draw_numbers(axes: Axes, frontier: "Frontier") -> None:
    times = [point.iteration_time_s for point in frontier.points]
    baseline = frontier.max_clock
    low_s, high_s = padded([*times, baseline.iteration_time_s])
    shown = [one for one in frontier.single_clocks if low_s <= one.iteration_time_s <= high_s]
    energies = [point.energy_j for point in frontier.points]
    bounds = [point.lower_bound_j for point in frontier.points]
    axes.plot(*_bound_curve(frontier), color=BLACK, linewidth=1.2, zorder=2, label="lower bound")
    axes.plot(
        times, energies, "o", color=BLUE, markersize=4.5, zorder=4, label="plans (points of the frontier)"
    )
    _draw_single_clocks(axes, shown, len(frontier.single_clocks) - len(shown))
    axes.plot(
        [baseline.iteration_time_s],
        [baseline.energy_j],
        "D",
        color=VERMILLION,
        markersize=7,
        zorder=3,
        label="max clock, no plan",
    )
    axes.set_xlim(low_s, high_s)
    axes.set_ylim(*padded([*energies, *bounds, baseline.energy_j, *(one.energy_j for one in shown)]))


def _draw_single_clocks(axes: Axes, shown: Sequence["Baseline"], hidden: int) -> None:
    label = "one clock for the whole job" + (f" ({hidden} beyond the axes)" if hidden else "")
    axes.plot(
        [one.iteration_time_s for one in shown],
        [one.energy_j for one in shown],
        "s",
        markerfacecolor="white",
        markeredgecolor=ORANGE,
        markeredgewidth=1.3,
        markersize=5,
        zorder=3.5,
        label=label,
    )


def _describe(figure: Figure, axes: Axes, frontier: "Frontier") -> None:
    write_title(figure, axes, job_title(frontier))
    axes.set_xlabel("iteration time (s)")
    axes.set_ylabel(f"energy of an iteration (J, {gpus(frontier.gpus)})")
    axes.grid(visible=True)
    axes.legend(loc="upper right")


def add_saving_axis(axes: Axes, baseline_j: float) -> None:
    """A second scale: what is saved against a baseline's energy, in percent."""
    if baseline_j <= 0:
        return

    def to_percent(energy_j: Any) -> Any:
        return 100 * (1 - energy_j / baseline_j)

    def to_joules(percent: Any) -> Any:
        return baseline_j * (1 - percent / 100)

    saving = axes.secondary_yaxis("right", functions=(to_percent, to_joules))
    saving.set_ylabel("saving against max clock (%)")
    saving.tick_params(colors=GREY)
    saving.yaxis.label.set_color(GREY)


def _draw_names(axes: Axes, frontier: "Frontier") -> None:
    """One label for each named point; several names share it."""
    labels = [
        ("\n".join(point.names), point.iteration_time_s, point.energy_j)
        for point in frontier.points
        if point.names
    ]
    marks = [(point.iteration_time_s, point.energy_j) for point in frontier.points]
    baselines = (frontier.max_clock, *frontier.single_clocks)
    marks += [(one.iteration_time_s, one.energy_j) for one in baselines]
    marks += _along_bound(frontier)
    place_labels(axes, labels, marks)


def _along_bound(frontier: "Frontier") -> list[tuple[float, float]]:
    """Places on the line of the lower bound, close enough that no label fits between two."""
    times, bounds = _bound_curve(frontier)
    places = np.linspace(times[0], times[-1], 120)
    return list(zip(places.tolist(), np.interp(places, times, bounds).tolist(), strict=True))


def _bound_curve(frontier: "Frontier") -> tuple[Floats, Floats]:
    """The bound that is proven at any time: the highest of the points' own bounds, each extended by its slope.

    A line from point to point would lie above it, for the bound is convex.
    """
    own_s = np.array([point.iteration_time_s for point in frontier.points])
    own_j = np.array([point.lower_bound_j for point in frontier.points])
    slope_w = np.array([-point.marginal_power_w for point in frontier.points])
    times_s = np.union1d(np.linspace(own_s[0], own_s[-1], 400), own_s)
    return times_s, (own_j[:, None] + slope_w[:, None] * (times_s - own_s[:, None])).max(axis=0)


def padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis that shows all values with a margin."""
    low, high = min(values), max(values)
    margin = MARGIN * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
