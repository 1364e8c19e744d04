"""What passes and what fails, at the exact edge of every kind of limit."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from energyopt.planner.diff.compare import compare_frontiers, compare_plans
from energyopt.planner.diff.thresholds import Limit, Limits, judge, parse_limit
from energyopt.schemas.errors import NotComparableError, RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.frontier_points import FrontierPoint
from energyopt.schemas.plan import Plan

MakePlan = Callable[..., Plan]
NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1%", "J", Limit(relative=0.01)),
        ("0.5 %", "s", Limit(relative=0.005)),
        ("0%", "J", Limit(relative=0.0)),
        ("5", "J", Limit(absolute=5.0)),
        ("12.5J", "J", Limit(absolute=12.5)),
        ("0.25kJ", "J", Limit(absolute=250.0)),
        ("2s", "s", Limit(absolute=2.0)),
        ("500 ms", "s", Limit(absolute=0.5)),
        (".5", "s", Limit(absolute=0.5)),
        ("1e-1%", "s", Limit(relative=0.001)),
    ],
)
def test_limits_that_can_be_read(text: str, unit: str, expected: Limit) -> None:
    assert parse_limit(text, unit, "--flag") == expected


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("-1%", "J"),
        ("-5J", "J"),
        ("nan", "J"),
        ("nan%", "J"),
        ("inf", "s"),
        ("1e999%", "s"),
        ("", "J"),
        ("%", "J"),
        ("5s", "J"),
        ("5J", "s"),
        ("3mJ", "J"),
        ("5kj", "J"),
        ("1%%", "J"),
        ("1,5%", "J"),
        ("\u0661%", "J"),
        ("one percent", "s"),
    ],
)
def test_limits_that_cannot_be_read_are_refused_in_one_line(text: str, unit: str) -> None:
    with pytest.raises(RequestError, match=r"^--flag: .* is no increase of at least 0, such as [^\n]*$"):
        parse_limit(text, unit, "--flag")


@pytest.mark.parametrize(
    ("limit", "passes", "fails"),
    [
        ("1%", 4014.75, 4014.76),  # 3975 x 1.01 = 4014.75
        ("25J", 4000.0, 4000.01),
        ("0%", 3975.0, 3975.001),
    ],
)
def test_the_edge_of_an_energy_limit_passes(
    small_plan: Plan, make_plan: MakePlan, limit: str, passes: float, fails: float
) -> None:
    limits = Limits(energy=parse_limit(limit, "J", "--flag"), asked=True)
    assert judge(compare_plans(small_plan, make_plan(energy_j=passes), allow=NOTHING), limits) == ()
    (found,) = judge(compare_plans(small_plan, make_plan(energy_j=fails), allow=NOTHING), limits)
    assert found.change is not None and found.change.quantity == "energy_j"


def test_the_edge_of_a_time_limit_passes(small_plan: Plan, make_plan: MakePlan) -> None:
    limits = Limits(time=parse_limit("500ms", "s", "--flag"), asked=True)
    assert judge(compare_plans(small_plan, make_plan(iteration_time_s=9.5), allow=NOTHING), limits) == ()
    assert judge(compare_plans(small_plan, make_plan(iteration_time_s=9.501), allow=NOTHING), limits)


def test_noise_of_additions_is_not_worse(small_plan: Plan, make_plan: MakePlan) -> None:
    noisy = make_plan(energy_j=3975.0 * (1 + 1e-12), iteration_time_s=9.0 * (1 + 1e-12))
    assert judge(compare_plans(small_plan, noisy, allow=NOTHING), Limits()) == ()


def test_a_decrease_never_fails(small_plan: Plan, make_plan: MakePlan) -> None:
    better = make_plan(energy_j=1.0, iteration_time_s=0.1)
    assert judge(compare_plans(small_plan, better, allow=NOTHING), Limits()) == ()


def test_one_limit_leaves_the_other_at_zero(small_plan: Plan, make_plan: MakePlan) -> None:
    slower = make_plan(iteration_time_s=9.1)
    limits = Limits(energy=parse_limit("50%", "J", "--flag"), asked=True)
    (found,) = judge(compare_plans(small_plan, slower, allow=NOTHING), limits)
    assert found.words() == (
        "predicted: iteration_time_s 9.0000 s -> 9.1000 s (+0.1000 s, +1.11 %), limit +0 %"
    )


def test_a_prediction_missing_on_one_side_cannot_pass(small_plan: Plan) -> None:
    bare = replace(small_plan, predicted=None)
    with pytest.raises(NotComparableError, match="cannot compare: NEW predicts no iteration_time_s"):
        judge(compare_plans(small_plan, bare, allow=NOTHING), Limits())
    with pytest.raises(NotComparableError, match="cannot compare: OLD predicts no energy"):
        judge(compare_plans(bare, small_plan, allow=NOTHING), Limits())


def test_two_plans_without_predictions_pass_only_where_no_limit_was_asked_for(small_plan: Plan) -> None:
    bare = replace(small_plan, predicted=None)
    comparison = compare_plans(bare, bare, allow=NOTHING)
    assert judge(comparison, Limits()) == ()
    with pytest.raises(NotComparableError, match="cannot compare: OLD predicts no energy"):
        judge(comparison, Limits(asked=True))


def _failures(old: Frontier, *points: FrontierPoint, limits: Limits | None = None) -> list[str]:
    comparison = compare_frontiers(old, replace(old, points=points), allow=NOTHING)
    return [
        f"{found.group} {found.change.quantity if found.change else 'missing'}"
        for found in judge(comparison, limits or Limits())
    ]


def test_a_frontier_against_itself_is_not_worse(small_frontier: Frontier) -> None:
    assert _failures(small_frontier, *small_frontier.points) == []


def test_a_named_point_that_is_missing_fails(small_frontier: Frontier) -> None:
    first, *others = small_frontier.points
    unnamed = replace(first, names=("fastest", "best_edp"))
    assert _failures(small_frontier, unnamed, *others) == ["max_clock_time missing"]


def test_a_named_point_that_costs_more_fails(small_frontier: Frontier) -> None:
    *others, last = small_frontier.points
    costly = replace(last, energy_j=3787.5)  # 1 % more
    assert _failures(small_frontier, *others, costly) == ["min_energy energy_j"]
    assert _failures(small_frontier, *others, costly, limits=Limits(energy=Limit(relative=0.01))) == []


def test_a_named_point_that_is_slower_fails(small_frontier: Frontier) -> None:
    first, *others = small_frontier.points
    slower = replace(first, iteration_time_s=9.09)
    names = ["fastest", "max_clock_time", "best_edp"]
    assert _failures(small_frontier, slower, *others) == [f"{name} iteration_time_s" for name in names]
    assert _failures(small_frontier, slower, *others, limits=Limits(time=Limit(absolute=0.1))) == []


def test_a_name_that_moves_along_the_same_frontier_is_not_worse(small_frontier: Frontier) -> None:
    """A new, slower and cheaper point takes over min_energy; the old one is still there."""
    *others, last = small_frontier.points
    cheaper = replace(last, iteration_time_s=12.0, energy_j=3700.0)
    assert _failures(small_frontier, *others, replace(last, names=()), cheaper) == []


def test_a_frontier_without_names_cannot_be_judged(small_frontier: Frontier) -> None:
    bare = replace(small_frontier, points=tuple(replace(one, names=()) for one in small_frontier.points))
    with pytest.raises(NotComparableError, match="OLD predicts no energy and no time"):
        judge(compare_frontiers(bare, bare, allow=NOTHING), Limits())
