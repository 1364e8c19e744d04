"""Many layouts in one picture: time against energy, those named that are worth choosing or come next."""

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyopt.planner.plots.canvas import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    new_figure,
    paper_style,
    write_title,
)
from energyopt.planner.plots.frontier_plot import padded
from energyopt.planner.plots.labels import place_labels
from energyopt.planner.sweep.layouts import names_of
from energyopt.planner.sweep.ranking import Stretch, contenders, deadline_s, stretches
from energyopt.planner.views.sweep import sweep_title

if TYPE_CHECKING:
    from energyopt.schemas.sweep import Sweep

_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION)
_MARKERS = ("o", "s", "^", "v", "P", "X")
_PALE = "#BBBBBB"
_NAMED = 6  # layouts that are told apart, if so many are worth it
_ROOM = 1.0  # of what the unbeaten plans span, so much more is shown towards slower and dearer plans


def draw_sweep(sweep: "Sweep") -> Figure:
    """Draw iteration time (s) against energy (J, all GPUs), one curve for each layout.

    The axes show the unbeaten plans and as much again beyond them; the legend counts the layouts that lie outside.
    """
    with paper_style():
        figure = new_figure(9.0, 6.0)
        axes = figure.add_subplot()
        best, named = stretches(sweep), contenders(sweep, _NAMED)
        _set_limits(axes, best, deadline_s(sweep))
        _draw_others(axes, sweep, set(named))
        _draw_named(axes, sweep, named)
        _draw_best(axes, best)
        axes.axvline(
            deadline_s(sweep),
            color=GREY,
            linewidth=1.0,
            linestyle=":",
            zorder=1,
            label=f"{sweep.max_slowdown:g} x the least max-clock time",
        )
        _describe(figure, axes, sweep)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        _draw_names(axes, sweep, best)
    return figure


def _set_limits(axes: Axes, best: list[Stretch], deadline: float) -> None:
    times = [point.iteration_time_s for stretch in best for point in stretch.points] + [deadline]
    energies = [point.energy_j for stretch in best for point in stretch.points]
    right = max(times) + _ROOM * (max(times) - min(times))
    top = max(energies) + _ROOM * (max(energies) - min(energies))
    axes.set_xlim(*padded([min(times), right]))
    axes.set_ylim(*padded([min(energies), top]))


def _draw_others(axes: Axes, sweep: "Sweep", best: set[int]) -> None:
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    others = [one for index, one in enumerate(sweep.layouts) if index not in best]
    hidden = sum(
        not any(point.iteration_time_s < right and point.energy_j < top for point in one.points)
        for one in others
    )
    label = f"other layouts ({hidden} of {len(others)} beyond the axes)" if hidden else "other layouts"
    for place, one in enumerate(others):
        axes.plot(
            [point.iteration_time_s for point in one.points],
            [point.energy_j for point in one.points],
            color=_PALE,
            linewidth=0.9,
            marker=".",
            markersize=3,
            zorder=2,
            label="_nolegend_" if place else label,
        )


def _draw_named(axes: Axes, sweep: "Sweep", named: list[int]) -> None:
    names = names_of([one.layout for one in sweep.layouts])
    for index, (colour, marker) in zip(named, _looks(len(named)), strict=True):
        points = sweep.layouts[index].points
        axes.plot(
            [point.iteration_time_s for point in points],
            [point.energy_j for point in points],
            color=colour,
            linewidth=1.1,
            marker=marker,
            markersize=4,
            zorder=3,
            label=names[index],
        )


def _draw_best(axes: Axes, best: list[Stretch]) -> None:
    """A ring around every plan that no other beats."""
    points = [point for stretch in best for point in stretch.points]
    axes.plot(
        [point.iteration_time_s for point in points],
        [point.energy_j for point in points],
        "o",
        markerfacecolor="none",
        markeredgecolor=BLACK,
        markeredgewidth=0.9,
        markersize=8,
        zorder=4,
        label="plans that no other beats",
    )


def _looks(count: int) -> list[tuple[str, str]]:
    """A colour and a marker for each of so many curves."""
    return list(islice(zip(cycle(_COLOURS), cycle(_MARKERS), strict=False), count))


def _describe(figure: Figure, axes: Axes, sweep: "Sweep") -> None:
    gpus = sorted({one.layout.gpus for one in sweep.layouts})
    counts = f"{gpus[0]}" if len(gpus) == 1 else f"{gpus[0]} to {gpus[-1]}"
    write_title(figure, axes, sweep_title(sweep), f"{len(sweep.layouts)} layouts")
    axes.set_xlabel("iteration time (s)")
    axes.set_ylabel(f"energy of an iteration (J, {counts} GPUs)")
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    _add_token_axis(axes, sweep.tokens)


def _add_token_axis(axes: Axes, tokens: int) -> None:
    """A second scale: energy per token."""

    def to_token(energy_j: Any) -> Any:
        return energy_j / tokens

    def to_iteration(energy_j: Any) -> Any:
        return energy_j * tokens

    per_token = axes.secondary_yaxis("right", functions=(to_token, to_iteration))
    per_token.set_ylabel("energy per token (J)")
    per_token.tick_params(colors=GREY)
    per_token.yaxis.label.set_color(GREY)


def _draw_names(axes: Axes, sweep: "Sweep", best: list[Stretch]) -> None:
    """The name of each layout at the middle of its longest stretch of unbeaten plans."""
    names = names_of([one.layout for one in sweep.layouts])
    longest: dict[int, Stretch] = {}
    for stretch in sorted(best, key=lambda one: len(one.points), reverse=True):
        longest.setdefault(stretch.layout, stretch)
    labels = []
    for index, stretch in longest.items():
        middle = stretch.points[len(stretch.points) // 2]
        labels.append((names[index], middle.iteration_time_s, middle.energy_j))
    marks = [(point.iteration_time_s, point.energy_j) for one in sweep.layouts for point in one.points]
    place_labels(axes, labels, _inside(axes, marks))


def _inside(axes: Axes, marks: list[tuple[float, float]]) -> list[tuple[float, float]]:
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return [(x, y) for x, y in marks if left < x < right and low < y < high]
