"""Power of a point as tables and values; the numbers follow from the job in tests/conftest.py."""

from dataclasses import replace

import pytest

from energyopt.planner.views.frontier import frontier_tables
from energyopt.planner.views.power import power_tables, power_to_json
from energyopt.schemas.frontier import Frontier


@pytest.fixture
def fast(small_frontier: Frontier) -> Frontier:
    """Everything at 1400 MHz on 8 GPUs of each stage: 300 W each, 600 W where both stages run, 4200 J in 9 s."""
    point = replace(small_frontier.points[0], choices=(0,) * 8, peak_power_w=4800.0)
    return replace(small_frontier, points=(point,), gpus=16)


def test_one_pipeline_and_its_nodes(fast: Frontier) -> None:
    """4200 J / 9 s = 466.7 W on one GPU per stage; each stage runs 6 s: 200 + 2 x 133.3 W."""
    totals, nodes = power_tables(fast, 0, 8)
    assert totals.rows == (("one pipeline", "16", "3733.3", "4800.0"),)
    assert "16 GPUs" in nodes.title and "8 GPUs" in nodes.title
    assert nodes.rows == (("0", "0", "8", "1866.7", "2400.0"), ("1", "1", "8", "1866.7", "2400.0"))
    (both,) = power_tables(fast, 0, 16)[1].rows
    assert both == ("0", "0 to 1", "16", "3733.3", "4800.0")


def test_replicas_in_step_and_the_cap(fast: Frontier) -> None:
    pipeline = replace(fast.pipeline, data_parallel=3)
    totals, _ = power_tables(replace(fast, pipeline=pipeline, peak_power_cap_w=5000.0), 0, 8)
    assert totals.rows[1:] == (
        ("all 3 replicas, in step", "48", "11200.0", "14400.0"),
        ("cap on one pipeline", "16", "-", "5000.0"),
    )


def test_peaks_that_last(fast: Frontier) -> None:
    """600 W last for 2 s at most, one GPU per stage; 400 W always."""
    found = power_to_json(replace(fast, peak_lasts_s=2.5), 0, 8)
    assert found["peak_power_w"] == pytest.approx(8 * 400.0)
    assert found["peak_lasts_s"] == 2.5
    assert "of 2.5 s or more" in power_tables(replace(fast, peak_lasts_s=2.5), 0, 8)[0].title


def test_equal_nodes_stand_together(fast: Frontier) -> None:
    assert [row[0] for row in power_tables(fast, 0, 4)[1].rows] == ["0 to 1", "2 to 3"]


def test_the_frontier_says_what_its_peaks_are(fast: Frontier) -> None:
    header, *_, points = frontier_tables(replace(fast, peak_power_cap_w=5000.0, peak_lasts_s=0.01))
    assert ("peak power is at most, W", "5000.0") in header.rows
    assert ("peak power lasts for at least, s", "0.0100") in header.rows
    assert points.rows[0][points.columns.index("peak power_w")] == "4800.0"
    header, *_ = frontier_tables(fast)
    assert not any("peak" in name for name, _ in header.rows)
