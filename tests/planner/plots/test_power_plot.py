"""The picture of power over time; the numbers follow from the job in tests/conftest.py."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from energyopt.planner.plots import power_plot
from energyopt.planner.plots.canvas import save
from energyopt.planner.plots.power_plot import draw_power
from energyopt.schemas.frontier import Frontier


@pytest.fixture
def fast(small_frontier: Frontier) -> Frontier:
    """Everything at 1400 MHz: 400 W, or 600 W while both stages run; 4200 J in 9 s."""
    point = replace(small_frontier.points[0], choices=(0,) * 8)
    return replace(small_frontier, points=(point,))


def _steps(frontier: Frontier) -> StepPatch:
    (drawn,) = (one for one in draw_power(frontier, 0).axes[0].patches if isinstance(one, StepPatch))
    return drawn


def test_steps_and_levels(fast: Frontier) -> None:
    drawn = _steps(fast).get_data()
    assert drawn.edges.tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert drawn.values.tolist() == pytest.approx([400, 600, 400, 600, 600, 400, 400])
    axes = draw_power(replace(fast, peak_power_cap_w=650.0), 0).axes[0]
    levels = {str(line.get_label()): np.asarray(line.get_ydata())[0] for line in axes.lines}
    assert levels == pytest.approx({"average, 466.7 W": 4200 / 9, "peak, 600.0 W": 600, "cap, 650.0 W": 650})
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 650


def test_it_says_which_gpus_it_covers(fast: Frontier) -> None:
    replicas = replace(fast, pipeline=replace(fast.pipeline, data_parallel=4), gpus=8)
    axes = draw_power(replicas, 0).axes[0]
    assert axes.get_ylabel() == "power (W, 8 GPUs)"
    assert "one of 4 replicas" in axes.get_title(loc="left")
    assert "one of" not in draw_power(fast, 0).axes[0].get_title(loc="left")


def test_more_steps_than_a_picture_can_show(fast: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three columns of 3 s: the range of the steps in each."""
    monkeypatch.setattr(power_plot, "_COLUMNS", 3)
    drawn = _steps(fast).get_data()
    assert drawn.edges.tolist() == [0, 3, 6, 9]
    assert drawn.values.tolist() == pytest.approx([600, 600, 400])
    assert np.asarray(drawn.baseline).tolist() == pytest.approx([400, 400, 400])


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_equal_input_gives_equal_bytes(fast: Frontier, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    save(draw_power(fast, 0), first)
    save(draw_power(fast, 0), second)
    assert first.read_bytes() == second.read_bytes()
