"""Many layouts in one picture: what is drawn is the plans, and what nothing beats can be told from the rest."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from energyopt.planner.plots.canvas import save
from energyopt.planner.plots.sweep_plot import draw_sweep
from energyopt.schemas.sweep import Sweep

MakeSweep = Callable[..., Sweep]
BEST = [[(10, 100), (12, 90)], [(11, 95), (13, 60)]]
BEATEN = [[(14.0 + index / 10, 99.0), (15.0 + index / 10, 97.0)] for index in range(46)]
FAR = [[(100, 99), (110, 98)], [(11, 1000), (12, 900)]]


@pytest.fixture
def sweep(make_sweep: MakeSweep) -> Sweep:
    """50 layouts: two with unbeaten plans, 48 others."""
    return make_sweep([*BEST, *BEATEN, *FAR])


def test_every_layout_is_drawn_and_the_unbeaten_plans_are_marked(sweep: Sweep) -> None:
    axes = draw_sweep(sweep).axes[0]
    drawn = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    for plans in (*BEST, *BEATEN, *FAR):
        assert [list(map(float, plan)) for plan in plans] in drawn
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[0].startswith("other layouts (") and "of 44 beyond the axes)" in texts[0]
    assert texts[1:3] == ["tp8 pp2 dp1 mb1x4 1f1b", "tp8 pp3 dp1 mb1x4 1f1b"]
    assert [note.get_text() for note in axes.texts] == texts[1:3]
    ringed = next(line for line in axes.lines if line.get_label() == "plans that no other beats")
    assert np.asarray(ringed.get_xydata()).tolist() == [[10, 100], [11, 95], [12, 90], [13, 60]]


def test_the_axes_show_the_unbeaten_plans_and_as_much_again(sweep: Sweep) -> None:
    axes = draw_sweep(sweep).axes[0]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < 10 and 13 < right < 20
    assert low < 60 and 100 < high < 200


def test_it_says_what_it_shows(sweep: Sweep) -> None:
    axes = draw_sweep(sweep).axes[0]
    assert axes.get_xlabel() == "iteration time (s)"
    assert axes.get_ylabel() == "energy of an iteration (J, 16 to 408 GPUs)"
    assert "llama on GPU (simulated)" in axes.get_title(loc="left")


def test_labels_cover_no_other_label(sweep: Sweep) -> None:
    figure = draw_sweep(sweep)
    first, second = (note.get_window_extent() for note in figure.axes[0].texts)
    assert not first.overlaps(second)


def test_a_single_plan(make_sweep: MakeSweep) -> None:
    axes = draw_sweep(make_sweep([[(10, 100)]])).axes[0]
    assert axes.get_ylabel().endswith("(J, 16 GPUs)")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_equal_input_gives_equal_bytes(sweep: Sweep, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    save(draw_sweep(sweep), first)
    save(draw_sweep(sweep), second)
    assert first.read_bytes() == second.read_bytes()
