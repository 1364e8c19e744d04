"""Levels of a graph hold what can be looked at together, and longest paths by levels are those by operations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.levels import levels_of
from energyopt.planner.problem import Problem

JOBS = [
    {"stages": 1, "microbatches": 3},
    {"stages": 3, "microbatches": 5},
    {"stages": 2, "microbatches": 3, "p2p_time_s": 0.2},
    {"schedule": "gpipe", "stages": 4, "microbatches": 3, "p2p_time_s": 0.1},
    {"schedule": "zb-h1", "stages": 3, "microbatches": 4},
    {"schedule": "interleaved-1f1b", "stages": 2, "microbatches": 4, "chunks_per_stage": 2},
]


@pytest.fixture(params=JOBS, ids=lambda one: f"{one.get('schedule', '1f1b')}-{one['stages']}")
def problem(request: pytest.FixtureRequest, random_job: Callable[..., Any], make_problem: Any) -> Problem:
    found: Problem = make_problem(random_job(5, **request.param))
    return found


def test_levels_are_the_order_cut_where_something_waits(problem: Problem) -> None:
    levels = levels_of(problem.graph)
    places = [one.places for one in levels.before]
    assert places == [one.places for one in levels.after]
    assert [index for one in places for index in range(one.start, one.stop)] == list(range(problem.n_ops))
    for before, after in zip(levels.before, levels.after, strict=True):
        assert ((before.near < before.places.start) | (before.near == problem.n_ops)).all()
        assert (after.near >= after.places.stop).all()  # n, for what nothing waits for, lies beyond all


def test_every_dependency_is_in_its_level(problem: Problem) -> None:
    graph, levels = problem.graph, levels_of(problem.graph)
    place = np.empty(graph.n_ops, dtype=np.int64)
    place[graph.order] = np.arange(graph.n_ops)
    edges = zip(place[graph.tail].tolist(), place[graph.head].tolist(), graph.lag_s.tolist(), strict=True)
    found = set()
    for level in levels.before:
        lags = np.zeros((*level.near.shape, 1)) if level.lag_s is None else level.lag_s
        heads = np.broadcast_to(np.arange(level.places.start, level.places.stop), level.near.shape)
        rows = zip(level.near.ravel(), heads.ravel(), lags.ravel(), strict=True)
        found |= {(int(near), int(head), float(lag)) for near, head, lag in rows if near < graph.n_ops}
    assert found == set(edges)


def test_finishes_are_those_of_one_operation_after_another(problem: Problem) -> None:
    time_s = np.random.default_rng(2).uniform(0.1, 2.0, (problem.n_ops, 5))
    found = problem.paths.finishes_s(time_s)
    expected = np.stack([problem.paths.earliest_finish_s(column) for column in time_s.T], axis=1)
    assert found.tolist() == expected.tolist()
    assert problem.paths.makespans_s(time_s).tolist() == expected.max(axis=0).tolist()
