"""Frontiers side by side; the numbers follow from the job in tests/conftest.py."""

import json
from dataclasses import replace

import pytest

from energyopt.planner.views.comparison import (
    check_one_job,
    common_time_s,
    comparison_table,
    comparison_to_json,
    energy_within_j,
    labels,
)
from energyopt.schemas.errors import RequestError
from energyopt.schemas.files import canonical_json
from energyopt.schemas.frontier import Frontier

FILES = ("all.parquet", "clocks.parquet")


@pytest.fixture
def pair(small_frontier: Frontier) -> tuple[Frontier, Frontier]:
    """Everything: 9 s at 3975 J, 9.25 s at 3950 J, 11.25 s at 3750 J. Clocks alone: without the first point."""
    points = small_frontier.points[1:]
    return small_frontier, replace(small_frontier, only="clocks", points=points)


def test_labels_say_what_plans_choose_where_that_tells_them_apart(pair: tuple[Frontier, Frontier]) -> None:
    assert labels(pair, FILES) == ["all together", "clocks only"]
    assert labels((pair[0], replace(pair[0], only="overlap")), FILES) == ["all together", "overlap only"]
    assert labels((pair[0], pair[0]), FILES) == list(FILES)


def test_the_table(pair: tuple[Frontier, Frontier]) -> None:
    """Against 9 s and 4200 J: 9.25 s +2.78 %, 3750 J -10.71 %, 3975 J -5.36 %, 3950 J -5.95 %.

    Both have a plan from 9.25 s on.
    """
    table = comparison_table(pair, ("everything", "clocks"))
    assert "2 stages x 2 microbatches" in table.title
    assert [row[0] for row in table.rows] == ["max clock", "everything", "clocks"]
    assert table.rows[0][1:] == ("9.0000", "-", "4200.0", "-", "4200.0", "-", "-", "-")
    assert table.rows[1][1:] == (
        *("9.0000", "+0.00 %", "3750.0", "-10.71 %", "3975.0", "-5.36 %", "3950.0", "-5.95 %"),
    )
    assert table.rows[2][1:] == (*("9.2500", "+2.78 %", "3750.0", "-10.71 %", "-", "-", "3950.0", "-5.95 %"),)


def test_json(pair: tuple[Frontier, Frontier]) -> None:
    found = json.loads(canonical_json(comparison_to_json(pair, ("everything", "clocks"))))
    assert found["gpus"] == 2
    assert found["max_clock"] == {"iteration_time_s": 9.0, "energy_j": 4200.0}
    assert found["common_time_s"] == 9.25
    assert found["frontiers"][1] == {
        "name": "clocks",
        "iteration_time_s": [9.25, 11.25],
        "energy_j": [3950.0, 3750.0],
        "lower_bound_j": [3930.0, 3750.0],
    }


def test_energy_within_a_time(small_frontier: Frontier) -> None:
    assert common_time_s([small_frontier]) == 9.0
    deadlines = (8.9, 9.0, 9.0 * (1 - 1e-12), 11.0, 99.0)
    expected = [None, 3975.0, 3975.0, 3950.0, 3750.0]
    assert [energy_within_j(small_frontier, one) for one in deadlines] == expected


@pytest.mark.parametrize(
    ("change", "name"),
    [({"device_name": "B200"}, "device name"), ({"scope": "module"}, "scope"), ({"gpus": 16}, "gpus")],
)
def test_frontiers_of_other_jobs_are_refused(
    pair: tuple[Frontier, Frontier], change: dict[str, object], name: str
) -> None:
    check_one_job(pair, FILES)
    other = replace(pair[1], **change)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=f"clocks.parquet and all.parquet .*: their {name} differs"):
        check_one_job((pair[0], other), FILES)
    pipeline = replace(pair[1].pipeline, microbatches=4)
    with pytest.raises(RequestError, match="their pipeline differs"):
        check_one_job((pair[0], replace(pair[1], pipeline=pipeline)), FILES)
