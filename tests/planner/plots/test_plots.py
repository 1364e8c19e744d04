"""Pictures: what they say, that nothing overlaps, that equal input gives equal bytes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from energyopt.planner.plots.canvas import paper_style, save
from energyopt.planner.plots.frontier_plot import draw_frontier
from energyopt.planner.plots.timeline_plot import draw_timeline, op_letters
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import Op, OpKind, Schedule
from energyopt.schemas.plan import Baseline

Draw = Callable[[Frontier], Figure]
DRAWN: dict[str, Draw] = {"frontier": draw_frontier, "timeline": lambda one: draw_timeline(one, 0)}


def _labels(figure: Figure) -> list[Annotation]:
    return [text for text in figure.axes[0].texts if isinstance(text, Annotation)]


def _boxes_of(figure: Figure, kind: int) -> np.ndarray:
    """[n, left and right] of a layer of the timeline: 0 waiting, 1 operations, 2 critical path."""
    layers = [one for one in figure.axes[0].collections if isinstance(one, PolyCollection)]
    return np.array(
        [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in layers[kind].get_paths()]
    )


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize("name", DRAWN)
def test_equal_input_gives_equal_bytes(
    small_frontier: Frontier, tmp_path: Path, name: str, suffix: str
) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix.upper()}"
    save(DRAWN[name](small_frontier), first)
    save(DRAWN[name](small_frontier), second)
    assert first.read_bytes() == second.read_bytes()


def test_global_settings_stay_as_they_are(small_frontier: Frontier, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    save(draw_frontier(small_frontier), tmp_path / "f.png")
    assert dict(mpl.rcParams) == before


def test_another_suffix_is_refused(small_frontier: Frontier, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"pictures are written as \.png, \.svg, \.pdf"):
        save(draw_frontier(small_frontier), tmp_path / "f.jpg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", DRAWN)
def test_the_title_says_what_is_shown(small_frontier: Frontier, name: str) -> None:
    title = DRAWN[name](small_frontier).axes[0].get_title(loc="left")
    assert title.startswith("GPU [bold]x[/bold] (simulated), 2 stages x 2 microbatches, 1f1b, 2 GPUs")


@pytest.mark.parametrize("name", DRAWN)
def test_names_are_not_read_as_formulas(small_frontier: Frontier, tmp_path: Path, name: str) -> None:
    odd = replace(small_frontier, device_name="GPU $\\undefined{x$ \u4e16\n" + "long " * 40)
    figure = DRAWN[name](odd)
    save(figure, tmp_path / "odd.png")
    with paper_style():
        figure.draw_without_rendering()
    title = figure.axes[0]._left_title  # type: ignore[attr-defined]
    assert isinstance(title, Text)
    assert title.get_window_extent().x1 <= figure.bbox.x1


def test_axes_of_the_frontier(small_frontier: Frontier) -> None:
    axes = draw_frontier(small_frontier).axes[0]
    assert axes.get_xlabel() == "iteration time (s)"
    assert axes.get_ylabel() == "energy of an iteration (J, 2 GPUs)"
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
    assert drawn["plans (points of the frontier)"] == [[9.0, 3975.0], [9.25, 3950.0], [11.25, 3750.0]]
    bound = {round(time_s, 9): energy_j for time_s, energy_j in drawn["lower bound"]}
    assert [bound[time_s] for time_s in (9.0, 9.25, 11.25)] == [3960.0, 3930.0, 3750.0]
    # between two points the higher of their tangents: 3930 - 100 x 1 = 3750 + 80 x 1, where a chord has 3840
    middle_s, middle_j = min(bound.items(), key=lambda one: abs(one[0] - 10.25))
    assert middle_j == pytest.approx(max(3930 - 100 * (middle_s - 9.25), 3750 + 80 * (11.25 - middle_s)))
    assert drawn["max clock, no plan"] == [[9.0, 4200.0]]
    assert drawn["one clock for the whole job"] == [[11.25, 3750.0], [9.0, 4200.0]]


def test_single_clocks_beyond_the_axes_are_counted(small_frontier: Frontier) -> None:
    slow = Baseline(sm_clock_mhz=210, iteration_time_s=90.0, energy_j=9000.0)
    axes = draw_frontier(replace(small_frontier, single_clocks=(slow,))).axes[0]
    assert any(line.get_label() == "one clock for the whole job (1 beyond the axes)" for line in axes.lines)
    assert axes.get_xlim()[1] < 12.0


def test_names_on_one_point_share_a_label(small_frontier: Frontier) -> None:
    texts = [label.get_text() for label in _labels(draw_frontier(small_frontier))]
    assert texts == ["fastest\nmax_clock_time\nbest_edp", "min_energy"]


def test_labels_keep_clear_of_each_other_and_stay_inside(small_frontier: Frontier) -> None:
    """Four named points within 1 % of each other, in the corner of the axes."""
    base = small_frontier.points[0]
    names = ("fastest", "max_clock_time", "best_edp", "min_energy")
    points = tuple(
        replace(
            base,
            names=(name,),
            iteration_time_s=9.0 + 0.002 * i,
            energy_j=3975.0 - i,
            lower_bound_j=3960.0 - i,
        )
        for i, name in enumerate(names)
    )
    figure = draw_frontier(replace(small_frontier, points=points))
    boxes = [Text.get_window_extent(label) for label in _labels(figure)]
    inside = figure.axes[0].get_window_extent()
    for index, box in enumerate(boxes):
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_one_point_can_be_drawn_and_none_is_refused(small_frontier: Frontier, tmp_path: Path) -> None:
    single = replace(small_frontier, points=small_frontier.points[2:], single_clocks=())
    save(draw_frontier(single), tmp_path / "one.png")
    with pytest.raises(RequestError, match="holds no point"):
        draw_frontier(replace(small_frontier, points=()))


def test_the_timeline_shows_the_simulated_times(small_frontier: Frontier) -> None:
    """Point 0: F1 and B0 of stage 0 slow; see tests/conftest.py."""
    figure = draw_timeline(small_frontier, 0)
    assert _boxes_of(figure, 1).tolist() == [
        [0, 1], [1, 2.25], [4, 6.5], [7, 9], [1, 2], [2, 4], [4, 5], [5, 7],
    ]  # fmt: skip
    assert sorted(_boxes_of(figure, 2).tolist()) == [[0, 1], [1, 2], [2, 4], [4, 5], [5, 7], [7, 9]]
    power_w = np.asarray(figure.axes[0].collections[1].get_array())
    assert power_w.tolist() == [300, 200, 200, 300, 300, 300, 300, 300]


def test_the_timeline_is_labelled(small_frontier: Frontier) -> None:
    figure = draw_timeline(small_frontier, 2)
    axes, bar = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["waiting (100.0 W)", "critical path"]
    assert bar.get_ylabel() == "power (W per GPU)"
    assert axes.get_xlabel() == "time in the iteration (s)"
    assert "point 2 (min_energy): 11.2500 s, 3750.0 J on 2 GPUs" in axes.get_title(loc="left")
    assert [text.get_text() for text in axes.texts] == ["F0", "F1", "B0", "B1", "F0", "B0", "F1", "B1"]


def test_letters_of_operations() -> None:
    def letters(kind: OpKind, backward: int | None = None) -> str:
        return op_letters(Op(stage=0, chunk=0, microbatch=7, kind=kind, backward_microbatch=backward))

    assert letters(OpKind.BACKWARD_INPUT) == "I7"
    assert letters(OpKind.BACKWARD_WEIGHT) == "W7"
    assert letters(OpKind.FORWARD_BACKWARD, backward=5) == "F7B5"


def test_a_timeline_of_1536_operations_takes_less_than_3_s(small_frontier: Frontier, tmp_path: Path) -> None:
    """8 stages x 96 microbatches, all forwards before all backwards, with no room for letters."""
    kinds = (OpKind.FORWARD, OpKind.BACKWARD)
    orders = tuple(
        tuple(Op(stage=s, chunk=0, microbatch=m, kind=kind) for kind in kinds for m in range(96))
        for s in range(8)
    )
    schedule = Schedule(
        name="gpipe", microbatches=96, virtual_stages=tuple((s,) for s in range(8)), orders=orders
    )
    options = {op.key: small_frontier.options[op.key._replace(stage=0)] for op in schedule.ops}
    point = replace(small_frontier.points[0], choices=(0,) * 1536)
    large = replace(small_frontier, schedule=schedule, options=options, points=(point,))
    start = perf_counter()
    figure = draw_timeline(large, 0)
    save(figure, tmp_path / "large.png")
    assert perf_counter() - start < 3.0
    assert list(figure.axes[0].texts) == []
