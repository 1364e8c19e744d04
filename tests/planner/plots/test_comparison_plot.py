"""Several frontiers in one picture; the numbers follow from the job in tests/conftest.py."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from energyopt.planner.plots.canvas import save
from energyopt.planner.plots.comparison_plot import draw_comparison
from energyopt.schemas.frontier import Frontier

NAMES = ("all together", "clocks only", "overlap only")


@pytest.fixture
def frontiers(small_frontier: Frontier) -> list[Frontier]:
    points = small_frontier.points
    return [replace(small_frontier, points=own) for own in (points, points[1:], points[:1])]


def test_every_frontier_and_the_baseline_are_drawn(frontiers: list[Frontier]) -> None:
    axes = draw_comparison(frontiers, NAMES).axes[0]
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
    assert drawn["all together"] == [[9.0, 3975.0], [9.25, 3950.0], [11.25, 3750.0]]
    assert drawn["clocks only"] == [[9.25, 3950.0], [11.25, 3750.0]]
    assert drawn["overlap only"] == [[9.0, 3975.0]]
    assert drawn["max clock, no plan"] == [[9.0, 4200.0]]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [*NAMES, "max clock, no plan"]


def test_nothing_lies_beyond_the_axes(frontiers: list[Frontier]) -> None:
    axes = draw_comparison(frontiers, NAMES).axes[0]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < 9.0 and right > 11.25
    assert low < 3750.0 and high > 4200.0


def test_it_says_what_it_shows(frontiers: list[Frontier]) -> None:
    axes = draw_comparison(frontiers, NAMES).axes[0]
    assert axes.get_xlabel() == "iteration time (s)"
    assert axes.get_ylabel() == "energy of an iteration (J, 2 GPUs)"
    assert axes.get_title(loc="left").startswith("GPU [bold]x[/bold] (simulated), 2 stages x 2 microbatches")


def test_lines_can_be_told_apart_without_colour(frontiers: list[Frontier]) -> None:
    """Six frontiers, twice as many as there are colours."""
    lines = draw_comparison(frontiers * 2, NAMES * 2).axes[0].lines[:6]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 6


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_equal_input_gives_equal_bytes(frontiers: list[Frontier], tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    save(draw_comparison(frontiers, NAMES), first)
    save(draw_comparison(frontiers, NAMES), second)
    assert first.read_bytes() == second.read_bytes()
