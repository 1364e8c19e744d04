"""Placing labels beside points so that none covers another, a point, or the edge of the axes."""

from collections.abc import Iterator, Sequence
from math import cos, pi, sin

from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

DISTANCES_PT = (12, 20, 30, 42, 56, 72, 90)
DIRECTIONS = 16  # counted anticlockwise from the upper right, where a falling frontier leaves room
CLEARANCE_PX = 3.0


def place_labels(
    axes: Axes, labels: Sequence[tuple[str, float, float]], avoid: Sequence[tuple[float, float]]
) -> list[Annotation]:
    """Annotate (text, x, y) triples, keeping clear of each other, of the legend and of the points in `avoid`.

    The figure's layout must be final. Where no free place exists the label goes to the nearest one inside.
    """
    taken = [_around(axes, point) for point in avoid]
    if (legend := axes.get_legend()) is not None:
        taken.append(legend.get_window_extent(_renderer(axes)))
    placed = []
    for text, x, y in labels:
        note = _annotate(axes, text, x, y)
        taken.append(_move_to_free_place(note, axes, taken))
        placed.append(note)
    return placed


def _annotate(axes: Axes, text: str, x: float, y: float) -> Annotation:
    return axes.annotate(
        text,
        (x, y),
        xytext=(0, 0),
        textcoords="offset points",
        fontsize=8.5,
        ha="center",
        va="center",
        arrowprops={"arrowstyle": "-", "color": "#6E6E6E", "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4},
        zorder=6,
    )


def _move_to_free_place(note: Annotation, axes: Axes, taken: Sequence[Bbox]) -> Bbox:
    renderer, inside = _renderer(axes), axes.get_window_extent()
    fallback: tuple[tuple[float, float], Bbox] | None = None
    for offset in _offsets(note, float(axes.figure.dpi) / 72, renderer):
        note.set_position(offset)
        box = _text_box(note, renderer)
        if not _contains(inside, box):
            continue
        if not any(box.overlaps(other) for other in taken):
            return box
        fallback = fallback or (offset, box)
    if fallback is None:
        return _text_box(note, renderer)
    note.set_position(fallback[0])
    return fallback[1]


def _offsets(note: Annotation, pixels: float, renderer: RendererBase) -> Iterator[tuple[float, float]]:
    """Centres of the label, in points from its own point: nearest first, the upper right first."""
    box = _text_box(note, renderer)
    half_width, half_height = box.width / 2 / pixels, box.height / 2 / pixels
    for distance in DISTANCES_PT:
        for step in range(DIRECTIONS):
            turn = (step + 1) // 2 * (1 if step % 2 else -1)
            angle = pi / 4 + turn * 2 * pi / DIRECTIONS
            yield cos(angle) * (distance + half_width), sin(angle) * (distance + half_height)


def _text_box(note: Annotation, renderer: RendererBase) -> Bbox:
    """The extent of the words alone, without the line to the point."""
    note.update_positions(renderer)
    return Text.get_window_extent(note, renderer).padded(CLEARANCE_PX)


def _around(axes: Axes, point: tuple[float, float]) -> Bbox:
    x, y = (float(value) for value in axes.transData.transform(point))
    radius = 2 * CLEARANCE_PX
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _contains(outer: Bbox, inner: Bbox) -> bool:
    within_x = outer.x0 <= inner.x0 and inner.x1 <= outer.x1
    return bool(within_x and outer.y0 <= inner.y0 and inner.y1 <= outer.y1)


def _renderer(axes: Axes) -> RendererBase:
    canvas = axes.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    renderer: RendererBase = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return renderer
