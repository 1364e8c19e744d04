"""Which alternative of a plan a slowdown means, and what one rank does about it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.applier.runtime.agreement import Alone, NoAgreementError, agreement
from energyopt.applier.runtime.complaints import Complaints
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import stage_table
from energyopt.schemas.plan import Plan

MakePlan = Callable[..., Plan]


@pytest.mark.parametrize(
    ("slowdown", "alternative"),
    [(1.0, 0), (1.0999, 0), (1.1, 1), (1.15, 1), (1.2, 2), (5.0, 2), (float("inf"), 2), (0.5, 0)],
)
def test_the_slowest_within_the_slowdown(make_plan: MakePlan, slowdown: float, alternative: int) -> None:
    """The plan takes 1.0 s, its alternatives 1.1 and 1.2."""
    assert stage_table(make_plan(), 0).alternative_for(slowdown) == alternative


def test_the_slowest_of_several_in_any_order(make_plan: MakePlan) -> None:
    plan = make_plan()
    table = stage_table(replace(plan, alternatives=plan.alternatives[::-1]), 0)
    assert [table.alternative_for(slowdown) for slowdown in (1.0, 1.1, 1.2)] == [0, 2, 1]


def test_without_a_prediction_there_is_nothing_to_choose_by(make_plan: MakePlan) -> None:
    assert stage_table(replace(make_plan(), predicted=None), 0).alternative_for(2.0) == 0


def test_an_alternative_with_other_operations_is_left_out(make_plan: MakePlan) -> None:
    plan = make_plan()
    odd = replace(plan.alternatives[0], stages=(plan.alternatives[0].stages[0][::-1],))
    table = stage_table(replace(plan, alternatives=(odd, plan.alternatives[1])), 0)
    assert len(table.clocks_mhz) == 2
    assert table.alternative_for(1.15) == 0
    assert table.clocks_mhz[table.alternative_for(1.2)] == (705,) * 6


def test_an_alternative_that_runs_otherwise_is_left_out_and_said(make_plan: MakePlan) -> None:
    """Its times are those of other parts than those that run."""
    plan = make_plan()
    cut = tuple(replace(op, nanobatches=2) for op in plan.alternatives[0].stages[0])
    odd = replace(plan.alternatives[0], stages=(cut,))
    table = stage_table(replace(plan, alternatives=(odd, plan.alternatives[1])), 0)
    assert len(table.clocks_mhz) == 2
    reports = Reports(0)
    Complaints(table, 1, reports)
    assert reports.said[0].startswith("1 of the plan's alternatives")
    Complaints(stage_table(plan, 0), 1, quiet := Reports(0))
    assert quiet.said == ()


def test_the_safe_clock_is_the_plans_highest_for_the_stage(make_plan: MakePlan) -> None:
    assert stage_table(make_plan(), 0).safe_mhz == 1395
    assert stage_table(make_plan(clocks=(900, 1005)), 0).safe_mhz == 1005


class Others:
    """Ranks that wish something."""

    def __init__(self, wish: float = 1.0) -> None:
        self.wish = wish
        self.heard: list[float] = []
        self.closed = False

    def launch(self, wish: float) -> None:
        self.heard.append(wish)

    def result(self) -> float:
        return self.wish

    def close(self) -> None:
        self.closed = True


def make(plan: Plan, others: Any, operator: float = 0.0, wish: float = 1.0) -> tuple[Slowdown, Reports]:
    reports = Reports(0)
    join = None if others is None else lambda: others
    return Slowdown(stage_table(plan, 0), join, lambda: operator, reports, wish), reports


@pytest.mark.parametrize(("own", "operator", "heard"), [(1.1, 0.0, 1.1), (1.1, 1.2, 1.2), (1.2, 1.1, 1.2)])
def test_a_rank_wishes_the_most_of_what_it_is_told(
    make_plan: MakePlan, own: float, operator: float, heard: float
) -> None:
    others = Others()
    slowdown, _ = make(make_plan(), others, operator, own)
    slowdown.launch()
    assert others.heard == [], "no iteration has begun"
    slowdown.alternative()
    slowdown.launch()
    slowdown.launch()
    assert others.heard == [heard], "once an iteration"
    slowdown.alternative()
    slowdown.launch()
    assert len(others.heard) == 2


def test_the_ranks_word_counts_and_not_the_own(make_plan: MakePlan) -> None:
    slowdown, reports = make(make_plan(), Others(1.2), wish=1.1)
    assert slowdown.alternative() == 2
    assert reports.said == ()


def test_an_iteration_whose_end_nobody_told_has_its_wish_told_all_the_same(make_plan: MakePlan) -> None:
    """The others have told theirs: a rank that leaves one out would be an iteration behind for good."""
    others = Others()
    slowdown, _ = make(make_plan(), others, wish=1.1)
    for _ in range(3):
        slowdown.alternative()
    assert others.heard == [1.1, 1.1]


def test_where_the_ranks_cannot_agree_it_is_said_once(make_plan: MakePlan) -> None:
    asked = []

    def join() -> Any:
        asked.append(1)
        raise NoAgreementError("not every rank runs the shim")

    reports = Reports(0)
    slowdown = Slowdown(stage_table(make_plan(), 0), join, lambda: 0.0, reports, 1.0)
    assert asked == [], "not before the first iteration"
    assert [slowdown.alternative() for _ in range(3)] == [0, 0, 0]
    slowdown.set(1.1)
    assert asked == [1]
    assert reports.said == (
        "the ranks cannot slow down together: not every rank runs the shim; the plan itself is run",
        "the plan has no alternatives to slow down to, or the ranks cannot agree on one; "
        "write it with apply --alternatives",
    )


@pytest.mark.parametrize("where", ["launch", "result"])
def test_a_collective_that_fails_is_said_once(make_plan: MakePlan, where: str) -> None:
    others = Others()

    def fail(*_: object) -> float:
        raise RuntimeError("connection reset")

    setattr(others, where, fail)
    slowdown, reports = make(make_plan(), others)
    for _ in range(3):
        assert slowdown.alternative() == 0
        slowdown.launch()
    (said,) = reports.said
    assert said == "the ranks cannot slow down together: connection reset; the plan itself is run"
    assert others.closed, "which tells the other ranks"


@pytest.mark.parametrize("nonsense", [0.9, -1, float("nan"), float("inf"), "1.1", None, [1.1]])
def test_a_slowdown_that_makes_no_sense_is_ignored(make_plan: MakePlan, nonsense: Any) -> None:
    slowdown, reports = make(make_plan(), Alone())
    slowdown.set(1.1)
    slowdown.set(nonsense)
    assert slowdown.wish == 1.1
    assert "a slowdown is a number of at least 1" in reports.said[0]


@pytest.mark.parametrize("who", ["own", "operator"])
def test_a_plan_without_alternatives_says_so(make_plan: MakePlan, who: str) -> None:
    plan = replace(make_plan(), alternatives=())
    slowdown, reports = make(plan, None, *((0.0, 1.1) if who == "own" else (1.1, 1.0)))
    for _ in range(2):
        slowdown.launch()
        assert slowdown.alternative() == 0
    (said,) = reports.said
    assert "no alternatives" in said
    assert "apply --alternatives" in said


def test_one_process_agrees_with_itself() -> None:
    alone = agreement(1)
    assert isinstance(alone, Alone)
    assert alone.result() == 1.0
    alone.launch(1.3)
    assert alone.result() == 1.3


def test_one_of_several_ranks_is_not_taken_for_the_only_one() -> None:
    with pytest.raises(NoAgreementError, match=r"one of 8 ranks.*init_process_group was not called before"):
        agreement(8)
