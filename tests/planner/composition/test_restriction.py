"""Planning with clocks alone or overlap alone: which rows stay, and that all choices together are never worse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.composition.restriction import Only, restricted
from energyopt.planner.composition.table import Composition, Offer, offered_options
from energyopt.planner.frontier import plan_frontier
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.profile import Level, Profile, ProfileRow

MakeRow = Callable[..., ProfileRow]
MakeProfile = Callable[..., Profile]


def _kept(profile: Profile, only: Only) -> set[ProfileRow]:
    return set(restricted(profile, only).rows)


@pytest.fixture
def rows(partition_row: MakeRow, op_row: MakeRow) -> dict[str, ProfileRow]:
    """One row of every sort, at 1400 MHz but for the last two."""
    at_top = {"sm_clock_mhz": 1400}
    overlapped = {"execution": "overlapped", "comm_launch": "norm", "nanobatches": 2, "count": 2}
    return {
        "op": op_row(2.0, 90.0, **at_top),
        "extra": partition_row("embedding", 0.1, 5.0, **at_top),
        "whole": partition_row("mlp", 1.0, 50.0, nanobatches=1, **at_top),
        "cut": partition_row("mlp", 0.5, 25.0, nanobatches=2, count=2, **at_top),
        "overlapped": partition_row("mlp", 0.4, 24.0, **(overlapped | at_top)),
        "kernel": partition_row("mlp", 0.4, 24.0, level=Level.KERNEL, kernel="norm", **at_top),
        "low": partition_row("mlp", 1.2, 45.0, nanobatches=1),
        "low_overlapped": partition_row("mlp", 0.6, 22.0, **overlapped),
    }


def test_everything_stays_without_a_restriction(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile
) -> None:
    profile = profile_of_rows(*rows.values())
    assert restricted(profile, None) is profile


@pytest.mark.parametrize(
    ("only", "names"),
    [
        (Only.CLOCKS, {"op", "extra", "whole", "low"}),
        (Only.OVERLAP, {"op", "extra", "whole", "cut", "overlapped"}),
    ],
)
def test_which_rows_stay(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile, only: Only, names: set[str]
) -> None:
    assert _kept(profile_of_rows(*rows.values()), only) == {rows[name] for name in names}


def test_operations_that_always_cut_their_microbatch_do_so_without_a_plan(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile
) -> None:
    names = ("extra", "cut", "overlapped", "low_overlapped")
    kept = _kept(profile_of_rows(*(rows[name] for name in names)), Only.CLOCKS)
    assert kept == {rows["extra"], rows["cut"]}


def test_numbers_of_sms_count_as_unplanned_only_where_nothing_else_was_measured(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile
) -> None:
    at_top, low = (replace(rows[name], comm_sms=8, energy_j=1.0) for name in ("whole", "low"))
    broken = replace(rows["low"], invalid="the clock was not held")
    kept = _kept(profile_of_rows(rows["whole"], at_top, low, broken), Only.CLOCKS)
    assert kept == {rows["whole"], low, broken}


def test_an_invalid_row_makes_no_clock_the_highest(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile
) -> None:
    broken = replace(rows["whole"], sm_clock_mhz=1500, invalid="the clock was not held")
    profile = profile_of_rows(broken, rows["whole"], rows["low"])
    assert _kept(profile, Only.OVERLAP) == {rows["whole"]}


def test_a_profile_without_sequential_rows_is_refused(
    rows: dict[str, ProfileRow], profile_of_rows: MakeProfile
) -> None:
    with pytest.raises(ProfileError, match="no sequential rows to plan from with --only clocks"):
        restricted(profile_of_rows(rows["overlapped"], rows["low_overlapped"]), Only.CLOCKS)


def _offers(job: Any, most: int) -> dict[Only | None, Offer]:
    profile, _, schedule = job
    keys = [op.key for op in schedule.ops]
    return {
        only: offered_options(restricted(profile, only), keys, Composition(most=most))
        for only in (None, *Only)
    }


@pytest.mark.parametrize("most", [0, 2, 4])
@pytest.mark.parametrize("whole", [None, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_offered_alone_has_its_match_among_all(
    partition_job: Callable[..., Any], seed: int, whole: float | None, most: int
) -> None:
    """Cutting microbatches alike: as fast, and as cheap in effective energy up to thinning's stated error."""
    offers = _offers(partition_job(seed, whole=whole), most)
    everything = offers[None]
    assert most or everything.error == 0.0
    for way, key, option in (
        (way, key, option)
        for only in Only
        for way, table in offers[only].offered.items()
        for key, options in table.items()
        for option in options
    ):
        own = everything.offered[way][key]
        allowed_j = everything.error * min(one.energy_j for one in own)
        as_fast = [one for one in own if one.time_s <= option.time_s * (1 + 1e-12)]
        least_j = min(one.energy_j - 70 * one.time_s for one in as_fast)
        assert least_j <= (option.energy_j - 70 * option.time_s) * (1 + 1e-12) + allowed_j


@pytest.mark.parametrize("seed", range(3))
def test_the_frontier_of_all_choices_is_never_dominated(partition_job: Callable[..., Any], seed: int) -> None:
    """Its bound lies below all plans, and none of its own is beaten in both time and energy."""
    profile, pipeline, schedule = partition_job(seed)
    found: dict[Only | None, Frontier] = {
        only: plan_frontier(profile, pipeline, schedule, points=8, only=only, composition=Composition(most=0))
        for only in (None, *Only)
    }
    assert [found[only].only for only in found] == [None, "clocks", "overlap"]
    for only in Only:
        for other in found[only].points:
            for point in found[None].points:
                if other.iteration_time_s <= point.iteration_time_s:
                    assert other.energy_j >= point.lower_bound_j * (1 - 1e-9)
                    assert other.energy_j >= point.energy_j * (1 - 1e-9)


def test_all_choices_share_their_baseline_with_clocks_alone(partition_job: Callable[..., Any]) -> None:
    profile, pipeline, schedule = partition_job(1, whole=1.2)
    one, other = (
        plan_frontier(profile, pipeline, schedule, points=4, only=only) for only in (None, Only.CLOCKS)
    )
    assert one.max_clock.energy_j == pytest.approx(other.max_clock.energy_j)
    assert one.max_clock.iteration_time_s == pytest.approx(other.max_clock.iteration_time_s)
