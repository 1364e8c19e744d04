"""One iteration as it runs: a row for each stage, a rectangle for each operation, coloured by its power."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyopt.planner.critical_path import critical_ops
from energyopt.planner.plots.canvas import VERMILLION, WAITING, new_figure, paper_style, write_title
from energyopt.planner.simulation import Timeline, simulate
from energyopt.planner.views.frontier import job_title
from energyopt.planner.wording import gpus
from energyopt.schemas.ops import Op, OpKind

if TYPE_CHECKING:
    from energyopt.schemas.frontier import Frontier

Floats: TypeAlias = NDArray[np.float64]

HEIGHT = 0.82  # of a stage's row
STRIP = 0.13  # of a stage's row: the mark of the critical path
FONT_PT = 6.5
CHARACTER_PT = 0.64 * FONT_PT  # DejaVu Sans' digits and capitals, rounded up
_CENTRED: Any = {"fontsize": FONT_PT, "ha": "center", "va": "center_baseline"}
LETTERS = {
    OpKind.FORWARD: "F",
    OpKind.BACKWARD: "B",
    OpKind.BACKWARD_INPUT: "I",
    OpKind.BACKWARD_WEIGHT: "W",
    OpKind.OPTIMIZER: "O",
    OpKind.GRAD_SYNC: "S",
}


def draw_timeline(frontier: "Frontier", index: int) -> Figure:
    """Draw the timeline of a point: time in s, power in W on one GPU.

    Raises:
        IndexError: no such point.
        ScheduleError: the file's schedule cannot run.
    """
    options = frontier.chosen_options(index)
    job = frontier.pipeline
    timeline = simulate(frontier.schedule, [one.time_s for one in options], job.p2p_time_s, job.fixed_time_s)
    power_w = np.array([one.energy_j / one.time_s if one.time_s else np.nan for one in options])
    with paper_style():
        figure = new_figure(12.0, 1.9 + 0.42 * min(frontier.schedule.stages, 40))
        axes = figure.add_subplot()
        _draw_waiting(axes, frontier.schedule.stages, timeline.iteration_time_s)
        drawn = _draw_ops(axes, frontier, timeline, power_w)
        _draw_critical_path(axes, frontier, timeline)
        _describe(figure, axes, frontier, index, timeline)
        figure.colorbar(drawn, ax=axes, pad=0.01, label="power (W per GPU)")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        _write_letters(axes, frontier.schedule.ops, timeline, power_w)
    return figure


def _draw_waiting(axes: Axes, stages: int, end_s: float) -> None:
    rows = np.arange(stages, dtype=np.float64)
    boxes = _boxes(np.zeros(stages), np.full(stages, end_s), rows - HEIGHT / 2, rows + HEIGHT / 2)
    axes.add_collection(PolyCollection(boxes, facecolors=WAITING, edgecolors="none", zorder=1))


def _draw_ops(axes: Axes, frontier: "Frontier", timeline: Timeline, power_w: Floats) -> PolyCollection:
    start_s, finish_s, rows = _places(frontier.schedule.ops, timeline)
    drawn = PolyCollection(
        _boxes(start_s, finish_s, rows - HEIGHT / 2, rows + HEIGHT / 2),
        array=power_w,
        cmap="cividis",
        norm=Normalize(*_limits(power_w)),
        edgecolors="white",
        linewidths=min(0.6, 120 / len(rows)),
        zorder=2,
    )
    axes.add_collection(drawn)
    return drawn


def _draw_critical_path(axes: Axes, frontier: "Frontier", timeline: Timeline) -> None:
    critical = sorted(critical_ops(frontier.schedule, timeline, frontier.pipeline.p2p_time_s))
    start_s, finish_s, rows = (part[critical] for part in _places(frontier.schedule.ops, timeline))
    boxes = _boxes(start_s, finish_s, rows + HEIGHT / 2 - STRIP, rows + HEIGHT / 2)
    axes.add_collection(PolyCollection(boxes, facecolors=VERMILLION, edgecolors="none", zorder=3))


def _places(ops: Sequence[Op], timeline: Timeline) -> tuple[Floats, Floats, Floats]:
    rows = np.array([op.stage for op in ops], dtype=np.float64)
    return np.array(timeline.start_s), np.array(timeline.finish_s), rows


def _boxes(left: Floats, right: Floats, top: Floats, bottom: Floats) -> list[Floats]:
    """The four corners of each rectangle, [4, x and y]."""
    corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    return list(np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1))


def _limits(power_w: Floats) -> tuple[float, float]:
    known = power_w[np.isfinite(power_w)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _describe(figure: Figure, axes: Axes, frontier: "Frontier", index: int, timeline: Timeline) -> None:
    point, stages = frontier.points[index], frontier.schedule.stages
    names = f" ({', '.join(point.names)})" if point.names else ""
    cost = f"{point.iteration_time_s:.4f} s, {point.energy_j:.1f} J on {gpus(frontier.gpus)}"
    text = f"point {index}{names}: {cost}"
    write_title(figure, axes, job_title(frontier), text)
    axes.set_xlim(0.0, timeline.iteration_time_s)
    axes.set_ylim(stages - 0.5, -0.5)
    axes.set_xlabel("time in the iteration (s)")
    axes.set_ylabel("stage")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=min(stages, 32), integer=True))
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    handles = [
        Patch(facecolor=WAITING, label=f"waiting ({frontier.wait_power_w:.1f} W)"),
        Patch(facecolor=VERMILLION, label="critical path"),
    ]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)


def _write_letters(axes: Axes, ops: Sequence[Op], timeline: Timeline, power_w: Floats) -> None:
    """Kind and microbatch of each operation that is wide and high enough for them."""
    extent = axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())
    bottom, top = axes.get_ylim()
    if 72 * extent.height / (bottom - top) * (HEIGHT - STRIP) < FONT_PT:
        return
    points_per_s = 72 * extent.width / timeline.iteration_time_s
    low_w, high_w = _limits(power_w)
    longest = max(len(op_letters(op)) for op in ops)  # so that a row is not labelled up to microbatch 9 alone
    for op, start_s, finish_s, power in zip(ops, timeline.start_s, timeline.finish_s, power_w, strict=True):
        text, place = op_letters(op), ((start_s + finish_s) / 2, op.stage - STRIP / 2)
        if points_per_s * (finish_s - start_s) >= CHARACTER_PT * longest + 1:
            dark = power < low_w + 0.55 * (high_w - low_w)
            axes.text(*place, text, color="white" if dark else "black", zorder=4, **_CENTRED)


def op_letters(op: Op) -> str:
    """An operation's kind as a letter and its microbatch, such as `F3`; `F4B1` where one call runs both."""
    if op.kind is OpKind.FORWARD_BACKWARD:
        return f"F{op.microbatch}B{op.backward_microbatch}"
    return f"{LETTERS[op.kind]}{op.microbatch}"
