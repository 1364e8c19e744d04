"""The recursion against every sequence there is."""

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from energyopt.planner.limits.viterbi import cheapest_sequences, priced_j

JOBS = [
    {"most": 3, "stages": 2, "microbatches": 2},
    {"most": 4, "stages": 1, "microbatches": 3},
    {"most": 2, "stages": 3, "microbatches": 2, "style": "noisy"},
    {"most": 3, "schedule": "gpipe", "stages": 2, "microbatches": 2, "style": "round"},
]


@pytest.mark.parametrize("settings", JOBS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_sequence_is_cheaper(
    settings: dict[str, Any], seed: int, random_job: Callable[..., Any], make_table: Callable[..., Any]
) -> None:
    table = make_table(random_job(seed, **settings))
    price_w = np.random.default_rng(seed).uniform(0, 400, table.problem.n_ops)
    change_j = np.array([0.0, 5.0, 50.0, 1e4])
    found = cheapest_sequences(table, price_w, change_j)
    costs = priced_j(table, price_w)
    for column, price_j in enumerate(change_j):
        least_j = sum(
            _least_j(costs[first:last], float(price_j))
            for first, last in zip(table.first[:-1], table.first[1:], strict=True)
        )
        assert found.cost_j[column] == pytest.approx(least_j, rel=1e-12)
        plan = found.plans[:, column]
        paid_j = costs[np.arange(len(plan)), plan].sum() + price_j * table.switches(plan[:, None])[0]
        assert paid_j == pytest.approx(least_j, rel=1e-12)


def _least_j(costs: np.ndarray, change_j: float) -> float:
    """Over every sequence of one stage's measured clocks."""
    measured = [np.flatnonzero(np.isfinite(row)).tolist() for row in costs]
    return min(
        sum(float(costs[i, c]) for i, c in enumerate(clocks))
        + change_j * sum(a != b for a, b in pairwise(clocks))
        for clocks in product(*measured)
    )


def test_changes_fall_as_their_price_rises(
    real_job: Callable[..., Any], make_table: Callable[..., Any]
) -> None:
    table = make_table(real_job("a40", 6))
    price_w = np.full(table.problem.n_ops, 100.0)
    plans = cheapest_sequences(table, price_w, np.geomspace(0.01, 1e4, 30)).plans
    switches = table.switches(plans)
    assert (np.diff(switches) <= 0).all()
    assert switches[-1] == 0
