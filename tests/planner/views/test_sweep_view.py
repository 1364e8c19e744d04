"""A sweep's tables and JSON; the numbers follow from plans written down by hand."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from energyopt.planner.views.sweep import recommendation, sweep_tables, sweep_to_view
from energyopt.schemas.files import canonical_json
from energyopt.schemas.sweep import FailedLayout, LeftOut, Sweep

MakeSweep = Callable[..., Sweep]


@pytest.fixture
def sweep(make_sweep: MakeSweep) -> Sweep:
    """20 tokens. Two stages: 10 s for 100 J, 12 s for 90 J. Three: 11 s for 95 J, 13 s for 60 J."""
    return make_sweep([[(10, 100), (12, 90)], [(11, 95), (13, 60)]], max_slowdown=1.1)


def test_the_best_layout_for_every_time(sweep: Sweep) -> None:
    best = sweep_tables(sweep)[0]
    assert best.title.startswith("llama on GPU (simulated), 4 sequences of 5 tokens an iteration: the best")
    assert best.columns[:3] == ("layout", "GPUs", "plans")
    two, three = "tp8 pp2 dp1 mb1x4 1f1b", "tp8 pp3 dp1 mb1x4 1f1b"
    assert best.rows[0] == (two, "16", "1", "10.0000", "100.0", "5.0000", "2", "10.0", "20.0")
    assert [row[:4] for row in best.rows] == [
        (two, "16", "1", "10.0000"),
        (three, "24", "1", "11.0000"),
        (two, "16", "1", "12.0000"),
        (three, "24", "1", "13.0000"),
    ]


def test_all_layouts_by_rank(sweep: Sweep) -> None:
    """Within 1.1 x 10 s: 95 J on three stages; 100 J on two is 5.26 % more."""
    ranking = sweep_tables(sweep)[1]
    assert "2 layouts by their energy within 11.0000 s (1.1 x the max-clock time" in ranking.title
    assert [(row[0][:7], row[2], row[3], row[4], *row[-3:]) for row in ranking.rows] == [
        ("tp8 pp3", "11.0000", "11.0000 to 13.0000", "95.0 to 60.0", "95.0", "+0.00 %", "1"),
        ("tp8 pp2", "10.0000", "10.0000 to 12.0000", "100.0 to 90.0", "100.0", "+5.26 %", "1"),
    ]


def test_what_to_take_in_words(sweep: Sweep) -> None:
    assert recommendation(sweep).startswith(
        "least energy within 11.0000 s (1.1 x the max-clock time of the fastest layout): "
        "tp8 pp3 dp1 mb1x4 1f1b (time_s 11.0000, energy_j 95.0, J/token 4.7500, tokens/s 2,"
    )
    none = recommendation(replace(sweep, max_slowdown=0.5))
    assert none.startswith("no layout has a plan within 5.0000 s") and none.endswith("takes 10.0000 s")


def test_what_has_no_plan_is_listed(sweep: Sweep) -> None:
    layout = sweep.layouts[0].layout
    more = replace(
        sweep,
        failed=(FailedLayout(layout=layout, error="no rows"),),
        left_out=(LeftOut(combination="p pp7x1 1f1b on 16 GPUs", reason="do not divide"),),
    )
    failed, left_out = sweep_tables(more)[2:]
    assert failed.rows == ((layout.name, "no rows"),)
    assert left_out.rows == (("p pp7x1 1f1b on 16 GPUs", "do not divide"),)
    assert len(sweep_tables(sweep)) == 2


def test_json(sweep: Sweep) -> None:
    found = json.loads(canonical_json(sweep_to_view(sweep)))
    assert found["format"] == "energyopt-sweep"
    assert found["layouts"][1]["points"][0]["peak_power_w"] == pytest.approx(2 * 95 / 11)
    ranking = found["ranking"]
    assert ranking["deadline_s"] == 11.0
    assert [one["layout"] for one in ranking["layouts"]] == [1, 0]
    assert [one["energy_j"] for one in ranking["unbeaten"]] == [100, 95, 90, 60]
