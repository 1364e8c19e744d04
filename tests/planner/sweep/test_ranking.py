"""Who stands where, on three layouts whose plans were written down by hand."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from energyopt.planner.sweep.ranking import check_slowdown, contenders, deadline_s, ranked, stretches
from energyopt.schemas.errors import RequestError
from energyopt.schemas.sweep import Sweep

MakeSweep = Callable[..., Sweep]
Plans = Sequence[tuple[float, float]]
A: Plans = ((10, 100), (11, 90), (14, 80))  # unbeaten but for the last
B: Plans = ((10.5, 95), (12, 85), (13, 60))  # 95 J in 10.5 s and everything from 12 s on
C: Plans = ((20, 70), (30, 65))  # beaten by B's last plan


def test_unbeaten_plans_by_layout(make_sweep: MakeSweep) -> None:
    found = stretches(make_sweep([A, B, C]))
    assert [(one.layout, [point.energy_j for point in one.points]) for one in found] == [
        (0, [100]),
        (1, [95]),
        (0, [90]),
        (1, [85, 60]),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_unbeaten_plans_are_those_that_no_pair_of_loops_finds_beaten(
    make_sweep: MakeSweep, seed: int
) -> None:
    chance = random.Random(seed)
    layouts = []
    for _ in range(4):
        times = sorted(chance.sample(range(1, 30), 5))
        layouts.append(list(zip(times, (chance.randint(1, 30) for _ in times), strict=True)))
    plans = [plan for one in layouts for plan in one]
    beaten = {(t, e) for t, e in plans if any(x <= t and y <= e and (x, y) != (t, e) for x, y in plans)}
    found = [
        (point.iteration_time_s, point.energy_j)
        for one in stretches(make_sweep(layouts))
        for point in one.points
    ]
    assert found == sorted(set(plans) - beaten)


def test_ranks_at_a_deadline(make_sweep: MakeSweep) -> None:
    """Max-clock times are 9, 10 and 18 s: 1.3 x 9 s let A have 90 J and B 95 J; C comes last."""
    sweep = make_sweep([A, C, B], max_clock_s=(9, 18, 10), max_slowdown=1.3)
    assert deadline_s(sweep) == pytest.approx(11.7)
    found = ranked(sweep)
    assert [(one.layout, None if one.in_time is None else one.in_time.energy_j) for one in found] == [
        (0, 90),
        (2, 95),
        (1, None),
    ]
    assert [one.front for one in found] == [1, 1, 2]


def test_fronts_and_contenders(make_sweep: MakeSweep) -> None:
    """One layout beats all; without it two share the front; without these the last."""
    layouts = [[(4, 40)], [(1, 10)], [(2, 30), (5, 20)], [(3, 25)]]
    sweep = make_sweep(layouts, max_clock_s=(1, 1, 1, 1))
    assert {one.layout: one.front for one in ranked(sweep)} == {1: 1, 2: 2, 3: 2, 0: 3}
    assert contenders(sweep, 1) == [1]
    assert contenders(sweep, 3) == [1, 2, 3]
    assert contenders(sweep, 9) == [1, 2, 3, 0]
    assert contenders(make_sweep([A, B]), 1) == [0, 1]


def test_a_plan_as_fast_as_the_deadline_keeps_it(make_sweep: MakeSweep) -> None:
    """0.1 x 3 is a little more than 0.3."""
    sweep = make_sweep([[(0.1 * 3, 5.0)]], max_clock_s=(0.3,))
    assert ranked(sweep)[0].in_time is not None


def test_layouts_that_are_all_slower_go_by_their_fastest_plan(make_sweep: MakeSweep) -> None:
    sweep = make_sweep([C, A, B], max_clock_s=(1, 1, 1))
    assert [one.layout for one in ranked(sweep)] == [1, 2, 0]
    assert all(one.in_time is None for one in ranked(replace(sweep, max_slowdown=0.5)))


@pytest.mark.parametrize("slowdown", [0.0, -1.0, float("nan"), float("inf")])
def test_factors_that_give_no_deadline(slowdown: float) -> None:
    with pytest.raises(RequestError, match="--max-slowdown needs a finite factor above 0"):
        check_slowdown(slowdown)
