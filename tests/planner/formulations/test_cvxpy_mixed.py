"""Clocks of partitions, chosen exactly: what a limit means, and what is never believed."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from energyopt.planner.formulations.cvxpy_mixed import MixedChoice, MixedProblem, MixedProgram, UnprovenError
from energyopt.schemas.errors import SolverError

NODES = 1000


def _problem(seed: int, partitions: int = 4, clocks: int = 3, items: int = 3) -> MixedProblem:
    """A ring of partitions that follow each other five times, with random items at every clock."""
    rng = np.random.default_rng(seed)
    partition, clock, _ = np.array(list(product(range(partitions), range(clocks), range(items)))).T
    slower = 1 + 0.3 * clock
    time_s = slower * rng.uniform(0.5, 1.5, partitions)[partition] * rng.uniform(0.9, 1.1, len(clock))
    return MixedProblem(
        partition=partition,
        clock=clock,
        time_s=time_s,
        effective_j=rng.uniform(-5, 40, partitions)[partition]
        * slower**-2
        * rng.uniform(0.9, 1.1, len(clock)),
        steps={(one, (one + 1)): 5 for one in range(partitions - 1)} | {(0, partitions - 1): 5},
        change_s=0.01,
        change_j=0.2,
    )


def _every(problem: MixedProblem) -> list[MixedChoice]:
    """Every choice of more than one clock, added up item by item."""
    owned = [np.flatnonzero(problem.partition == one).tolist() for one in range(problem.shape[0])]
    found = []
    for items in product(*owned):
        clocks = [int(problem.clock[item]) for item in items]
        if len(set(clocks)) == 1:
            continue
        changes = sum(5 for one, other in problem.steps if clocks[one] != clocks[other])
        found.append(
            MixedChoice(
                items=items,
                time_s=sum(float(problem.time_s[item]) for item in items) + 0.01 * changes,
                effective_j=sum(float(problem.effective_j[item]) for item in items) + 0.2 * changes,
                changes=changes,
            )
        )
    return found


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_best_choice_at_every_price_in_any_order(seed: int) -> None:
    """One program for all prices: an answer must not be that of the price before."""
    problem, program = _problem(seed), MixedProgram(_problem(seed), NODES)
    every = _every(problem)
    for price_w in (0.0, 200.0, 3.0, 20.0, 1.0, 1e4):
        best_j = min(one.effective_j + price_w * one.time_s for one in every)
        found = program.at_price(1.0, price_w)
        assert found.effective_j + price_w * found.time_s == pytest.approx(best_j, rel=1e-9, abs=1e-9)
    assert program.at_price(0.0, 1.0).time_s == pytest.approx(min(one.time_s for one in every))


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_best_choice_within_every_deadline(seed: int) -> None:
    problem, program = _problem(seed), MixedProgram(_problem(seed), NODES)
    every = _every(problem)
    times_s = np.quantile([one.time_s for one in every], [0.0, 0.02, 0.3, 1.0], method="nearest")
    for deadline_s in times_s.tolist():
        best_j = min(one.effective_j for one in every if one.time_s <= deadline_s * (1 + 1e-9))
        found = program.within(deadline_s)
        assert found is not None
        assert found.effective_j == pytest.approx(best_j, rel=1e-9, abs=1e-9)
        assert found.time_s <= deadline_s * (1 + 1e-9)
        own = next(one for one in every if one.items == found.items)
        assert found.changes == own.changes
        assert (found.time_s, found.effective_j) == pytest.approx((own.time_s, own.effective_j), abs=1e-9)
    assert program.within(0.999 * float(times_s[0])) is None


def test_an_answer_is_not_that_of_the_deadline_before() -> None:
    """HiGHS 1.16, given its last solution to start from, called it optimal here."""
    program = MixedProgram(_problem(0, partitions=8, clocks=19), NODES)
    program.within(40.0)
    found = program.within(1000.0)
    assert found is not None
    assert found.effective_j == pytest.approx(program.at_price(1.0, 0.0).effective_j, rel=1e-9)


def test_a_limit_is_no_solution() -> None:
    program = MixedProgram(_problem(1, partitions=8, clocks=6, items=8), nodes=0)
    with pytest.raises(UnprovenError, match="clocks of 8 partitions are not proven within 0 nodes"):
        program.within(10.0)


@pytest.mark.parametrize(
    ("values", "bound", "problem"),
    [
        ([[1, 0, 0]] * 4, 0.0, "does not choose one clock for every partition"),
        ([[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]], 0.0, "does not choose one clock for every partition"),
        ([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], -1e3, "costs .* more than the -1000.0 that it proved"),
    ],
)
def test_an_answer_that_is_none_is_refused(values: Any, bound: float, problem: str) -> None:
    program = MixedProgram(_problem(0), NODES)
    statistics = SimpleNamespace(mip_dual_bound=bound)
    answer = SimpleNamespace(solver_stats=SimpleNamespace(extra_stats=statistics))
    with pytest.raises(SolverError, match=problem):
        program._check(answer, 0.0, np.array(values, dtype=np.bool_))


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    MixedProgram(_problem(0), NODES).at_price(1.0, 1.0)
    assert capfd.readouterr() == ("", "")
