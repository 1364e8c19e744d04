"""The trade-off: every row obeys its kind, lies above its own bound, and is recomputed from the profile's rows."""

from collections.abc import Callable
from typing import Any

import pytest

from energyopt.planner.frontier import plan_and_weigh, plan_frontier
from energyopt.planner.limits.tradeoff import FREE, SINGLE, SLOWDOWNS, Tradeoff
from energyopt.planner.views.tradeoff import COLUMNS, tradeoff_tables, tradeoff_to_json
from energyopt.schemas.files import canonical_json
from energyopt.schemas.frontier import Frontier


@pytest.fixture(scope="module")
def weighed(random_job: Callable[..., Any]) -> tuple[Any, Frontier, Tradeoff]:
    job = random_job(5, most=10, stages=3, microbatches=4)
    return job, *plan_and_weigh(*job, points=4)


def test_the_frontier_is_the_one_without(weighed: tuple[Any, Frontier, Tradeoff]) -> None:
    job, frontier, _ = weighed
    assert frontier == plan_frontier(*job, points=4)


def test_rows_keep_their_limits_and_bounds(weighed: tuple[Any, Frontier, Tradeoff]) -> None:
    _, frontier, tradeoff = weighed
    assert [point.slowdown for point in tradeoff.points if point.kind == FREE] == list(SLOWDOWNS)
    for point in tradeoff.points:
        assert point.iteration_time_s is not None and point.energy_j is not None and point.gap is not None
        assert point.iteration_time_s <= point.slowdown * frontier.max_clock.iteration_time_s * (1 + 1e-9)
        assert 0 <= point.gap <= 0.1
        assert point.max_switches is None or (point.clock_switches or 0) <= point.max_switches
        assert point.saving == pytest.approx(1 - point.energy_j / frontier.max_clock.energy_j)


def test_fewer_changes_cost_more(weighed: tuple[Any, Frontier, Tradeoff]) -> None:
    for slowdown in SLOWDOWNS:
        rows = [
            p
            for p in weighed[2].points
            if p.slowdown == slowdown and (p.kind == FREE or p.max_switches is not None)
        ]
        assert rows[0].kind == FREE and rows[-1].kind == SINGLE
        bounds_j = [row.lower_bound_j for row in rows]
        assert all(row.energy_j is not None for row in rows)
        assert bounds_j[0] == min(one for one in bounds_j if one is not None)
        energies_j = [row.energy_j or 0.0 for row in rows]
        assert energies_j[1:] == sorted(energies_j[1:])


def test_tables_and_json(weighed: tuple[Any, Frontier, Tradeoff]) -> None:
    tradeoff = weighed[2]
    tables = tradeoff_tables(tradeoff)
    assert [table.title for table in tables] == [
        f"clock changes at {slowdown} x the max-clock time (3 GPUs)"
        for slowdown in ("1", "1.02", "1.05", "1.1")
    ]
    assert all(table.columns == COLUMNS and len(table.rows) >= 3 for table in tables)
    assert len(tradeoff_to_json(tradeoff)["points"]) == len(tradeoff.points)
    assert canonical_json(tradeoff_to_json(tradeoff))
