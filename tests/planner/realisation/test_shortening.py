"""Durations that overrun their deadline are cut until all paths fit, and no further than to the fastest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.realisation.shortening import shortened
from energyopt.planner.realisation.sweeps import Sweeper


@pytest.mark.parametrize("seed", range(4))
def test_paths_fit_and_what_fits_already_stays(
    seed: int, random_job: Callable[..., Any], make_problem: Any
) -> None:
    problem = make_problem(random_job(seed, most=6, style="noisy", stages=3, microbatches=6, p2p_time_s=0.05))
    sweeper, rng = Sweeper(problem), np.random.default_rng(seed)
    fastest_s = problem.fastest_s[sweeper.order]
    wished_s = fastest_s[:, None] * (1 + 0.2 * rng.random((len(fastest_s), 3)))
    longest_s = sweeper.makespan_s(wished_s)
    least_s = float(sweeper.makespan_s(fastest_s[:, None])[0])
    deadline_s = np.array([longest_s[0] * 1.01, 0.5 * (longest_s[1] + least_s), least_s])
    found_s = shortened(sweeper, wished_s, fastest_s, deadline_s)
    assert (found_s[:, 0] == wished_s[:, 0]).all()
    assert (found_s >= fastest_s[:, None] * (1 - 1e-12)).all()
    assert (found_s <= wished_s).all()
    assert (sweeper.makespan_s(found_s) <= deadline_s * (1 + 1e-3)).all()


def test_longest_paths_by_enumeration(random_job: Callable[..., Any], make_problem: Any) -> None:
    """Through each operation: the longest of all paths that contain it."""
    problem = make_problem(random_job(1, most=3, style="noisy", stages=2, microbatches=3, p2p_time_s=0.2))
    sweeper = Sweeper(problem)
    time_s = problem.fastest_s[sweeper.order][:, None]
    through_s, _ = sweeper.longest_paths(time_s, np.zeros_like(time_s))
    place = np.argsort(sweeper.order)
    after: dict[int, list[tuple[int, float]]] = {}
    graph = problem.graph
    for tail, head, lag_s in zip(graph.tail.tolist(), graph.head.tolist(), graph.lag_s.tolist(), strict=True):
        after.setdefault(int(place[tail]), []).append((int(place[head]), lag_s))
    longest = np.zeros(len(time_s))

    def walk(path: list[int], so_far_s: float) -> None:
        if path[-1] not in after:
            for op in path:
                longest[op] = max(longest[op], so_far_s)
        for following, lag_s in after.get(path[-1], []):
            walk([*path, following], so_far_s + lag_s + float(time_s[following, 0]))

    for op in set(range(len(time_s))) - {head for ends in after.values() for head, _ in ends}:
        walk([op], float(time_s[op, 0]))
    assert through_s[:, 0] == pytest.approx(longest)
