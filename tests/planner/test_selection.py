"""Choosing a point: the small frontier has (9 s, 3975 J), (9.25 s, 3950 J) and (11.25 s, 3750 J)."""

import math
from dataclasses import replace

import pytest

from energyopt.planner import selection
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.planned_ops import PlannedOp


@pytest.mark.parametrize(
    ("deadline_s", "index"),
    [(9.0, 0), (9.24, 0), (9.25, 1), (11.0, 1), (11.25, 2), (1e9, 2), (math.inf, 2)],
)
def test_a_deadline_takes_the_cheapest_point_in_time(
    small_frontier: Frontier, deadline_s: float, index: int
) -> None:
    assert selection.by_deadline(small_frontier, deadline_s).index == index


def test_the_exact_minimum_is_met_however_it_was_printed(small_frontier: Frontier) -> None:
    slow = replace(small_frontier.points[0], iteration_time_s=9.000000000000004)
    frontier = replace(small_frontier, points=(slow, *small_frontier.points[1:]))
    assert selection.by_deadline(frontier, 9.0).index == 0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, -math.inf])
@pytest.mark.parametrize(
    "choose",
    [selection.by_deadline, selection.by_slowdown, selection.by_energy_budget, selection.by_power_cap],
)
def test_what_is_not_above_zero_is_refused(small_frontier: Frontier, choose, value: float) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError, match="above 0, not"):
        choose(small_frontier, value)


def test_too_early_a_deadline_names_the_nearest_reachable(small_frontier: Frontier) -> None:
    expected = (
        "no plan finishes an iteration in 8.9 s: the fastest needs 9 s; "
        "raise --deadline-s to 9.0000, or profile higher clocks"
    )
    with pytest.raises(RequestError) as caught:
        selection.by_deadline(small_frontier, 8.9)
    assert str(caught.value) == expected


def test_slowdown_is_relative_to_the_max_clock_baseline(small_frontier: Frontier) -> None:
    assert selection.by_slowdown(small_frontier, 1.0).index == 0
    assert selection.by_slowdown(small_frontier, 1.2).index == 1  # 10.8 s
    assert selection.by_slowdown(small_frontier, 1.25).index == 2  # 11.25 s
    with pytest.raises(RequestError, match=r"raise --max-slowdown to 1\.0000"):
        selection.by_slowdown(small_frontier, 0.99)


@pytest.mark.parametrize("value", [0.1234567, 8.41349, 9.0, 123.456, 99999.4, 0.00098765])
def test_what_a_refusal_asks_for_is_enough(small_frontier: Frontier, value: float) -> None:
    fastest = replace(small_frontier.points[0], iteration_time_s=value)
    frontier = replace(small_frontier, points=(fastest,))
    with pytest.raises(RequestError) as caught:
        selection.by_deadline(frontier, value * 0.5)
    advised = str(caught.value).split("raise --deadline-s to ")[1].split(",")[0]
    assert selection.by_deadline(frontier, float(advised)).index == 0


def test_an_energy_budget_takes_the_fastest_within_it(small_frontier: Frontier) -> None:
    assert selection.by_energy_budget(small_frontier, 4000.0).index == 0
    assert selection.by_energy_budget(small_frontier, 3974.9).index == 1
    assert selection.by_energy_budget(small_frontier, 3750.0).index == 2
    with pytest.raises(RequestError, match=r"the least is 3750 J in 11\.2500 s; raise .* 3750"):
        selection.by_energy_budget(small_frontier, 3000.0)


def test_a_power_cap_takes_the_fastest_within_it(small_frontier: Frontier) -> None:
    # 3975 / 9 = 441.7 W, 3950 / 9.25 = 427.0 W, 3750 / 11.25 = 333.3 W
    assert selection.by_power_cap(small_frontier, 442.0).index == 0
    assert selection.by_power_cap(small_frontier, 430.0).index == 1
    assert selection.by_power_cap(small_frontier, 334.0).index == 2
    with pytest.raises(RequestError, match=r"the least is 333\.333 W"):
        selection.by_power_cap(small_frontier, 300.0)


def test_by_number_and_name(small_frontier: Frontier) -> None:
    assert selection.by_name(small_frontier, "2").index == 2
    assert selection.by_name(small_frontier, "best_edp").index == 0
    for wanted in ("3", "-1", "1.0", "", "cheapest", "٢"):
        with pytest.raises(RequestError, match="there are 0 to 2, fastest"):
            selection.by_name(small_frontier, wanted)


def test_the_plan_has_the_clocks_of_the_choices(small_frontier: Frontier) -> None:
    plan = selection.to_plan(small_frontier, selection.by_name(small_frontier, "0"))
    clocks = [[op.sm_clock_mhz for op in stage] for stage in plan.stages]
    assert clocks == [[1400, 1000, 1000, 1400], [1400, 1400, 1400, 1400]]
    assert plan.stages[0][1] == PlannedOp(op=OpKind.FORWARD, chunk=0, microbatch=1, sm_clock_mhz=1000)
    assert plan.predicted is not None
    assert plan.predicted.energy_j == 3975.0
    assert plan.gpus == 2


def test_the_prediction_says_each_stages_energy(small_frontier: Frontier) -> None:
    """Stage 0: 300 + 250 + 500 + 600 J in 6.75 s and 2.25 s of waiting; stage 1: 1800 J in 6 s and 3 s."""
    chosen = selection.by_name(small_frontier, "fastest")
    predicted = selection.to_plan(small_frontier, chosen).predicted
    assert predicted is not None and predicted.stage_energy_j is not None
    assert predicted.stage_energy_j == pytest.approx((1875.0, 2100.0))
    assert sum(predicted.stage_energy_j) == pytest.approx(predicted.energy_j)


def test_the_best_single_clock_meets_the_deadline_asked_for(small_frontier: Frontier) -> None:
    tight = selection.to_plan(small_frontier, selection.by_deadline(small_frontier, 11.2))
    loose = selection.to_plan(small_frontier, selection.by_deadline(small_frontier, 11.3))
    assert tight.best_single_clock is not None
    assert loose.best_single_clock is not None
    assert tight.best_single_clock.sm_clock_mhz == 1400
    assert loose.best_single_clock.sm_clock_mhz == 1000


def test_no_single_clock_may_be_fast_enough(small_frontier: Frontier) -> None:
    frontier = replace(small_frontier, single_clocks=small_frontier.single_clocks[:1])
    assert selection.to_plan(frontier, selection.by_name(frontier, "0")).best_single_clock is None


def test_numbers_in_a_plan_have_nine_digits_rounded_to_the_safe_side(small_frontier: Frontier) -> None:
    point = replace(
        small_frontier.points[0],
        iteration_time_s=2.836510765075681,
        energy_j=6168.726491234567,
        lower_bound_j=6160.417282038884,
    )
    max_clock = replace(small_frontier.max_clock, energy_j=1e4 / 3)
    frontier = replace(small_frontier, points=(point,), max_clock=max_clock)
    plan = selection.to_plan(frontier, selection.by_name(frontier, "0"))
    assert plan.predicted is not None
    assert plan.max_clock is not None
    assert plan.predicted.iteration_time_s == 2.83651077  # up
    assert plan.predicted.energy_j == 6168.7265  # up
    assert plan.predicted.lower_bound_j == 6160.41728  # down
    assert plan.max_clock.energy_j == 3333.33334


@pytest.mark.parametrize(
    ("count", "times_s"), [(0, []), (1, [11.25]), (2, [9.25, 11.25]), (9, [9.25, 11.25])]
)
def test_alternatives_are_slower_points(small_frontier: Frontier, count: int, times_s: list[float]) -> None:
    plan = selection.to_plan(small_frontier, selection.by_name(small_frontier, "fastest"), count)
    assert [other.predicted.iteration_time_s for other in plan.alternatives] == times_s


def test_the_slowest_point_has_no_alternatives(small_frontier: Frontier) -> None:
    plan = selection.to_plan(small_frontier, selection.by_name(small_frontier, "min_energy"), 3)
    assert plan.alternatives == ()


def test_alternatives_change_clocks_alone(small_frontier: Frontier) -> None:
    """The last of three points is cut into two parts, so that it is no alternative to the others."""
    last = small_frontier.points[2]
    ops = small_frontier.schedule.ops
    options, choices = dict(small_frontier.options), []
    for op, choice in zip(ops, last.choices, strict=True):
        own = small_frontier.options[op.key]
        options[op.key] = (*own, *(replace(one, nanobatches=2) for one in own))
        choices.append(choice + len(own))
    cut = replace(last, choices=tuple(choices))
    frontier = replace(small_frontier, options=options, points=(*small_frontier.points[:2], cut))
    plans = [selection.to_plan(frontier, selection.by_name(frontier, str(one)), 2) for one in (0, 1)]
    times_s = [[one.predicted.iteration_time_s for one in plan.alternatives] for plan in plans]
    assert times_s == [[9.25], []]
