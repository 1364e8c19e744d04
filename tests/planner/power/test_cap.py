"""Plans under a cap on peak power, against every plan of small jobs, and on a published profile."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from energyopt.planner.frontier import plan_and_weigh, plan_frontier
from energyopt.planner.limits.rules import SwitchLimits
from energyopt.planner.power.floor import least_time_s
from energyopt.planner.power.over_time import loads_of_point
from energyopt.planner.power.rule import PeakRule
from energyopt.planner.simulation import simulate
from energyopt.planner.solve import Effort
from energyopt.schemas.errors import RequestError
from energyopt.schemas.frontier import Frontier

SHARES = (0.02, 0.1, 0.3, 0.6)  # of the way from the lowest peak of all plans to the highest


def _capped(job: Any, cap_w: float, **settings: Any) -> Frontier:
    return plan_frontier(*job, effort=Effort.QUICK, peak=PeakRule(cap_w=cap_w), **settings)


@pytest.mark.parametrize("style", ["smooth", "noisy", "round"])
@pytest.mark.parametrize("seed", range(3))
def test_plans_obey_and_are_among_the_best(
    seed: int, style: str, random_job: Callable[..., Any], all_plans: Callable[..., Any]
) -> None:
    """Of all plans that obey, the fastest is found within 15 % and the cheapest within 1 %; mostly they are found.

    The bounds hold for every plan that obeys, and so does the least time.
    """
    job = random_job(seed, style=style)
    every = all_plans(job)
    lowest_w, highest_w = min(one.peak_w for one in every), max(one.peak_w for one in every)
    for share in SHARES:
        cap_w = lowest_w + share * (highest_w - lowest_w)
        obeying = [one for one in every if one.peak_w <= cap_w * (1 + 1e-9)]
        frontier = _capped(job, cap_w)
        assert all((point.peak_power_w or np.inf) <= cap_w * (1 + 1e-9) for point in frontier.points)
        assert frontier.peak_power_cap_w == cap_w
        fastest_s = min(one.time_s for one in obeying)
        assert fastest_s * (1 - 1e-9) <= frontier.points[0].iteration_time_s <= 1.15 * fastest_s
        assert frontier.points[-1].energy_j <= 1.01 * min(one.energy_j for one in obeying)
        for point in frontier.points:
            as_fast = [one.energy_j for one in obeying if one.time_s <= point.iteration_time_s * (1 + 1e-9)]
            assert point.lower_bound_j <= min(as_fast) * (1 + 1e-9)
        assert (least_time_s(frontier) or 0.0) <= fastest_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_where_no_plan_obeys(
    seed: int, random_job: Callable[..., Any], all_plans: Callable[..., Any]
) -> None:
    """The least peak found is that of a plan, and the floor lies below the peaks of all."""
    job = random_job(seed, most=2)
    lowest_w = min(one.peak_w for one in all_plans(job))
    with pytest.raises(RequestError, match="no plan found keeps 2 GPU") as refused:
        _capped(job, 0.99 * lowest_w)
    _, found_w, floor_w = (float(text) for text in re.findall(r"([0-9.]+) W", str(refused.value)))
    assert found_w >= lowest_w - 0.1
    assert 2 * 80.0 < floor_w <= lowest_w + 0.1
    assert _capped(job, found_w).points  # asking for what is printed succeeds


def test_a_cap_that_all_plans_keep_changes_no_plan(random_job: Callable[..., Any]) -> None:
    job = random_job(2)
    free, capped = plan_frontier(*job, effort=Effort.QUICK), _capped(job, 1e6)
    assert capped.points == free.points
    assert capped.options == free.options


def test_the_cap_covers_all_gpus_of_the_pipeline(clocked_job: Callable[..., Any]) -> None:
    one, four = (_capped(clocked_job(4, gpus, stages=3, microbatches=4), gpus * 700.0) for gpus in (1, 4))
    assert [point.choices for point in one.points] == [point.choices for point in four.points]
    assert [point.peak_power_w for point in four.points] == pytest.approx(
        [4 * (point.peak_power_w or 0.0) for point in one.points]
    )


def test_peaks_that_do_not_last_are_allowed(clocked_job: Callable[..., Any]) -> None:
    job = clocked_job(7, stages=4, microbatches=6)
    strict = _capped(job, 900.0)
    lenient = plan_frontier(*job, effort=Effort.QUICK, peak=PeakRule(cap_w=900.0, lasts_s=0.3))
    assert lenient.peak_lasts_s == 0.3
    assert lenient.points[0].iteration_time_s < strict.points[0].iteration_time_s
    for index, point in enumerate(lenient.points):
        assert (point.peak_power_w or np.inf) <= 900.0 * (1 + 1e-9)
        assert loads_of_point(lenient, index).of_pipeline(1).peak_w(0.3) == point.peak_power_w
    assert loads_of_point(lenient, 0).of_pipeline(1).peak_w() > 900.0
    assert least_time_s(lenient) is None


def test_limits_on_clock_changes_are_kept_too(clocked_job: Callable[..., Any]) -> None:
    frontier = _capped(
        clocked_job(3, stages=3, microbatches=5), 600.0, limits=SwitchLimits(max_switches=3), points=4
    )
    assert all((point.peak_power_w or np.inf) <= 600.0 * (1 + 1e-9) for point in frontier.points)
    assert all(point.clock_switches <= 3 for point in frontier.points)


def test_mended_plans_keep_their_clocks_long_enough(clocked_job: Callable[..., Any]) -> None:
    """Operations take less than 1.7 s: where nothing is asked for, clocks change sooner than after 2 s."""
    job = clocked_job(6, stages=2, microbatches=4)
    free, kept = _capped(job, 420.0), _capped(job, 420.0, limits=SwitchLimits(min_dwell_s=2.0), points=4)
    assert min(_dwell_s(free, index) for index in range(len(free.points))) < 2.0
    assert min(_dwell_s(kept, index) for index in range(len(kept.points))) >= 2.0 - 1e-9
    assert all((point.peak_power_w or np.inf) <= 420.0 * (1 + 1e-9) for point in kept.points)


def _dwell_s(frontier: Frontier, index: int) -> float:
    """The shortest time between two clock changes of a stage within the iteration."""
    options, first, shortest_s = frontier.chosen_options(index), 0, np.inf
    start_s = simulate(frontier.schedule, [one.time_s for one in options]).start_s
    for order in frontier.schedule.orders:
        own = range(first + 1, first + len(order))
        changes = [start_s[i] for i in own if options[i].sm_clock_mhz != options[i - 1].sm_clock_mhz]
        shortest_s = min([shortest_s, *np.diff(changes).tolist()])
        first += len(order)
    return float(shortest_s)


def test_plans_are_deterministic(clocked_job: Callable[..., Any]) -> None:
    job = clocked_job(5, stages=3, microbatches=4)
    assert _capped(job, 650.0) == _capped(job, 650.0)


def test_partitions(partition_job: Callable[..., Any]) -> None:
    """Plans keep to one way to cut the microbatch under a cap, too."""
    job = partition_job(1)
    free = plan_frontier(*job, effort=Effort.QUICK)
    frontier = _capped(job, 0.9 * (free.points[0].peak_power_w or 0.0))
    assert frontier.points[0].iteration_time_s >= free.points[0].iteration_time_s
    for index in range(len(frontier.points)):
        assert len({option.nanobatches for option in frontier.chosen_options(index)}) == 1
    for options in frontier.options.values():
        assert len(set(options)) == len(options)


def test_a_published_profile(real_job: Callable[..., Any]) -> None:
    """A100, 8 GPUs: the fastest plan under 2 kW takes at most 25 % more than the least time that is proven."""
    job = real_job("a100", 12)
    frontier = _capped(job, 2000.0)
    assert all((point.peak_power_w or np.inf) <= 2000.0 * (1 + 1e-9) for point in frontier.points)
    assert all(point.gap < 0.06 for point in frontier.points)
    least_s = least_time_s(frontier)
    assert least_s is not None
    assert least_s <= frontier.points[0].iteration_time_s <= 1.25 * least_s


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"cap_w": 0.0}, "--peak-power-cap-w needs a finite power above 0 W, not 0"),
        ({"cap_w": float("inf")}, "--peak-power-cap-w needs a finite power above 0 W, not inf"),
        ({"cap_w": float("nan")}, "--peak-power-cap-w needs a finite power above 0 W, not nan"),
        ({"lasts_s": -1.0}, "--peak-lasts-s needs a finite time of at least 0 s, not -1"),
    ],
)
def test_what_cannot_be_asked_for(rule: dict[str, float], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        PeakRule(**rule)


def test_the_tradeoff_of_clock_changes_knows_no_cap(random_job: Callable[..., Any]) -> None:
    with pytest.raises(RequestError, match="--switch-tradeoff knows no --peak-power-cap-w"):
        plan_and_weigh(*random_job(1), peak=PeakRule(cap_w=400.0))
