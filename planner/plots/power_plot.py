"""Power of all GPUs of a pipeline over one iteration, with average, peak and cap."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from energyopt.planner.arrays import Floats
from energyopt.planner.plots.canvas import (
    BLACK,
    BLUE,
    ORANGE,
    VERMILLION,
    new_figure,
    paper_style,
    write_title,
)
from energyopt.planner.power.over_time import PowerOverTime, loads_of_point
from energyopt.planner.views.frontier import job_title
from energyopt.planner.wording import gpus

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier

_COLUMNS = 2000  # steps that a picture can show; of more than that, the range in each column is drawn


def draw_power(frontier: "Frontier", index: int) -> Figure:
    """Draw the power (W, all GPUs of one pipeline) of a point over an iteration (s).

    Raises:
        IndexError: no such point.
        ScheduleError: the file's schedule cannot run.
    """
    power = loads_of_point(frontier, index).of_pipeline(frontier.gpus // frontier.schedule.stages)
    with paper_style():
        figure = new_figure(9.0, 4.2)
        axes = figure.add_subplot()
        _draw_steps(axes, power)
        _draw_levels(axes, frontier, power)
        _describe(figure, axes, frontier, index, power)
    return figure


def _draw_steps(axes: Axes, power: PowerOverTime) -> None:
    if len(power.power_w) <= _COLUMNS:
        axes.stairs(power.power_w, power.edge_s, color=BLUE, linewidth=1.0, baseline=None, label="power")
        return
    edge_s, low_w, high_w = _columns(power)
    axes.stairs(high_w, edge_s, baseline=low_w, fill=True, color=BLUE, label="power, range of")


def _columns(power: PowerOverTime) -> tuple[Floats, Floats, Floats]:
    """Lowest and highest power in columns of equal time: edges, low and high."""
    edge_s = np.linspace(0.0, float(power.edge_s[-1]), _COLUMNS + 1)
    first = np.searchsorted(power.edge_s, edge_s[:-1], side="right") - 1
    low_w, high_w = (pick.reduceat(power.power_w, first) for pick in (np.minimum, np.maximum))
    last = np.minimum(np.searchsorted(power.edge_s, edge_s[1:], side="left") - 1, len(power.power_w) - 1)
    ends_w = power.power_w[last]
    return edge_s, np.minimum(low_w, ends_w), np.maximum(high_w, ends_w)


def _draw_levels(axes: Axes, frontier: "Frontier", power: PowerOverTime) -> None:
    average_w, peak_w = power.average_w, power.peak_w(frontier.peak_lasts_s)
    lasts = f" of {frontier.peak_lasts_s:g} s" if frontier.peak_lasts_s else ""
    axes.axhline(average_w, color=ORANGE, linestyle="--", label=f"average, {average_w:.1f} W")
    axes.axhline(peak_w, color=BLACK, linestyle=":", label=f"peak{lasts}, {peak_w:.1f} W")
    if (cap_w := frontier.peak_power_cap_w) is not None:
        axes.axhline(cap_w, color=VERMILLION, linestyle="-.", label=f"cap, {cap_w:.1f} W")


def _describe(figure: Figure, axes: Axes, frontier: "Frontier", index: int, power: PowerOverTime) -> None:
    point, replicas = frontier.points[index], frontier.pipeline.data_parallel
    names = f" ({', '.join(point.names)})" if point.names else ""
    beside = f"; one of {replicas} replicas" if replicas > 1 else ""
    text = f"point {index}{names}: {point.iteration_time_s:.4f} s, {point.energy_j:.1f} J{beside}"
    write_title(figure, axes, job_title(frontier), text)
    axes.set_xlim(0.0, float(power.edge_s[-1]))
    axes.set_ylim(0.0, 1.05 * max(float(power.power_w.max()), frontier.peak_power_cap_w or 0.0))
    axes.set_xlabel("time in the iteration (s)")
    axes.set_ylabel(f"power (W, {gpus(frontier.gpus)})")
    axes.grid(visible=True)
    axes.legend(loc="lower center", ncols=4)
