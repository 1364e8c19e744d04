"""Options composed from partition rows: against brute force, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from energyopt.planner.composition.table import Composition, offered_options
from energyopt.planner.options import pareto_front
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig
from energyopt.schemas.profile import Profile, ProfileRow

MakeRow = Callable[..., ProfileRow]
MakeProfile = Callable[..., Profile]
KEY = OpKey(0, 0, OpKind.FORWARD)
EXACT = Composition(most=0)


def _options(profile: Profile, composition: Composition = EXACT) -> tuple[Option, ...]:
    """The options of all ways in one front, with a wait power of 10 W."""
    offered = offered_options(profile, [KEY], composition).offered
    return pareto_front([option for table in offered.values() for option in table[KEY]], 10.0)


def _overlapped(sms: int | None, launch: str) -> PartitionConfig:
    return PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)


def _random_rows(partition_row: MakeRow, seed: int) -> list[ProfileRow]:
    """Two partitions and one extra at three clocks: whole, and in two nanobatches with four configurations each."""
    rng = np.random.default_rng(seed)
    rows = []
    for clock in (900, 1000, 1100):
        for name in ("attention", "mlp"):
            whole = partition_row(name, rng.uniform(1, 2), rng.uniform(50, 90), nanobatches=1, count=3)
            rows.append(replace(whole, sm_clock_mhz=clock))
            for sms, launch in ((None, None), (4, "norm"), (8, "norm"), (8, "rope")):
                rows.append(
                    partition_row(
                        name,
                        rng.uniform(0.4, 1.1),
                        rng.uniform(25, 50),
                        nanobatches=2,
                        count=6,
                        sm_clock_mhz=clock,
                        execution="sequential" if launch is None else "overlapped",
                        comm_sms=sms,
                        comm_launch=launch,
                    )
                )
        rows.append(partition_row("embedding", rng.uniform(0.1, 0.2), rng.uniform(5, 9), sm_clock_mhz=clock))
    return rows


def _brute_force(rows: list[ProfileRow], wait_power_w: float) -> list[tuple[float, float]]:
    """Every way, clock and combination of configurations, reduced to the front in time and effective energy."""
    found = []
    for clock, count in product((900, 1000, 1100), (1, 2)):
        by_partition: dict[str | None, list[ProfileRow]] = {}
        for row in rows:
            if row.sm_clock_mhz == clock and row.nanobatches in (count, None):
                by_partition.setdefault(row.partition, []).append(row)
        for picked in product(*by_partition.values()):
            time_s = sum(row.count * row.time_s for row in picked)
            energy_j = sum(row.count * row.energy_j for row in picked)
            found.append((time_s, energy_j - wait_power_w * time_s))
    front: list[tuple[float, float]] = []
    for time_s, effective_j in sorted(found):
        if not front or effective_j < front[-1][1]:
            front.append((time_s, effective_j))
    return front


@pytest.mark.parametrize("seed", range(8))
def test_the_options_are_the_front_of_every_combination(
    seed: int, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = _random_rows(partition_row, seed)
    options = _options(profile_of_rows(*rows))
    expected = _brute_force(rows, 10.0)
    assert [one.time_s for one in options] == pytest.approx([time_s for time_s, _ in expected])
    effective_j = [one.energy_j - 10.0 * one.time_s for one in options]
    assert effective_j == pytest.approx([energy_j for _, energy_j in expected])


@pytest.mark.parametrize("seed", range(4))
def test_an_option_costs_what_its_configurations_cost(
    seed: int, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = _random_rows(partition_row, seed)
    for option in _options(profile_of_rows(*rows)):
        configs = dict(option.partitions)
        used = [
            row
            for row in rows
            if row.sm_clock_mhz == option.sm_clock_mhz
            and row.nanobatches in (option.nanobatches, None)
            and (row.execution, row.comm_sms, row.comm_launch)
            == (
                configs.get(str(row.partition), PLAIN).execution,
                configs.get(str(row.partition), PLAIN).comm_sms,
                configs.get(str(row.partition), PLAIN).comm_launch,
            )
        ]
        assert len(used) == 3
        assert option.time_s == pytest.approx(sum(row.count * row.time_s for row in used))
        assert option.energy_j == pytest.approx(sum(row.count * row.energy_j for row in used))


def test_row_order_does_not_matter(partition_row: MakeRow, profile_of_rows: MakeProfile) -> None:
    rows = _random_rows(partition_row, 1)
    assert _options(profile_of_rows(*rows)) == _options(profile_of_rows(*reversed(rows)))


@pytest.mark.parametrize("most", [1, 2, 4, 8])
def test_a_thinned_front_states_its_error(
    most: int, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    profile = profile_of_rows(*_random_rows(partition_row, 2))
    thinned, exact = (offered_options(profile, [KEY], one) for one in (Composition(most=most), EXACT))
    for way in (1, 2):
        kept, every = thinned.offered[way][KEY], exact.offered[way][KEY]
        assert len(kept) <= max(most, 2)
        assert kept[0] == every[0], "the fastest"
        assert kept[-1] == every[-1], "and that of least effective energy stay"
        for option in every:
            cheapest_j = min(one.energy_j - 10 * one.time_s for one in kept if one.time_s <= option.time_s)
            allowed_j = thinned.error * min(one.energy_j for one in kept)
            assert cheapest_j - (option.energy_j - 10 * option.time_s) <= allowed_j + 1e-9


def test_bounds_are_over_the_whole_front_however_thin(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    """For any price of time the cheapest option is among the measured ones."""
    profile = profile_of_rows(*_random_rows(partition_row, 3))
    every = _options(profile)
    measured = offered_options(profile, [KEY], Composition(most=1)).measured[KEY]
    for price_w in np.linspace(0, 200, 41):
        assert min(one.energy_j + price_w * one.time_s for one in measured) == pytest.approx(
            min(one.energy_j + price_w * one.time_s for one in every)
        )


def test_a_job_where_overlap_does_not_pay_keeps_to_the_sequential_plan(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    whole = partition_row("attention", 1.0, 100.0, nanobatches=1)
    halves = [
        partition_row("attention", 0.55, 60.0, nanobatches=2, count=2),
        partition_row(
            "attention",
            0.51,
            55.0,
            nanobatches=2,
            count=2,
            execution="overlapped",
            comm_launch="norm",
        ),
    ]
    (option,) = _options(profile_of_rows(whole, *halves))
    assert option.is_plain


def test_rows_of_the_operation_scale_what_is_composed(
    partition_row: MakeRow, op_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    """Training took 1.2 times the partitions' sum and 1.1 times its energy: so will the overlapped form."""
    rows = [
        partition_row("attention", 2.0, 100.0, nanobatches=1),
        partition_row(
            "attention", 0.8, 40.0, nanobatches=2, count=2, execution="overlapped", comm_launch="norm"
        ),
    ]
    (option,) = _options(profile_of_rows(*rows, op_row(2.4, 110.0)))
    assert (option.time_s, option.energy_j) == (pytest.approx(1.2 * 1.6), pytest.approx(1.1 * 80.0))
    assert option.partitions == (("attention", _overlapped(None, "norm")),)


def test_partitions_that_say_no_more_than_the_operation_change_nothing(
    partition_row: MakeRow, op_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = [partition_row("attention", 1.0, 50.0), partition_row("mlp", 1.0, 50.0)]
    (option,) = _options(profile_of_rows(*rows, op_row(2.1, 101.0)))
    assert option == Option(sm_clock_mhz=1000, time_s=2.1, energy_j=101.0)


def test_what_runs_without_a_plan_is_measured_at_every_clock(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = _random_rows(partition_row, 4)
    measured = offered_options(profile_of_rows(*rows), [KEY], EXACT).measured[KEY]
    for clock in (900, 1000, 1100):
        plain = next(one for one in measured if one.sm_clock_mhz == clock and one.is_plain)
        whole = [row for row in rows if row.sm_clock_mhz == clock and row.nanobatches in (1, None)]
        assert plain.time_s == pytest.approx(sum(row.count * row.time_s for row in whole))


def test_rows_of_every_stage_serve_a_stage_that_has_some_of_its_own(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = [
        partition_row("attention", 1.0, 50.0, stage=None, chunk=None),
        partition_row("attention", 3.0, 50.0, stage=1),
        partition_row("embedding", 0.5, 9.0, stage=0),
    ]
    profile = profile_of_rows(*rows)
    keys = [OpKey(stage, 0, OpKind.FORWARD) for stage in (0, 1, 2)]
    offered = offered_options(profile, keys, EXACT).offered[1]
    assert [offered[key][0].time_s for key in keys] == pytest.approx([1.5, 3.0, 1.0])


def test_a_missing_clock_is_named_with_its_partition(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = [
        row for row in _random_rows(partition_row, 5) if (row.partition, row.sm_clock_mhz) != ("mlp", 900)
    ]
    with pytest.raises(
        ProfileError, match=r"partition mlp of the forward of stage 0 .* at 900 MHz.*--allow-m"
    ):
        _options(profile_of_rows(*rows))
    offer = offered_options(profile_of_rows(*rows), [KEY], Composition(most=0, allow_missing=True))
    assert {one.sm_clock_mhz for one in offer.measured[KEY]} <= {1000, 1100}
    assert any("partition mlp" in text and "900 MHz" in text for text in offer.missing)


def test_the_reason_of_an_invalid_row_is_given(partition_row: MakeRow, profile_of_rows: MakeProfile) -> None:
    rows = [
        partition_row("attention", 1.0, 50.0),
        partition_row("mlp", 1.0, 50.0, invalid="the clock was not held"),
    ]
    with pytest.raises(ProfileError, match=r"partition mlp .*the clock was not held"):
        _options(profile_of_rows(*rows))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"execution": "later"}, "execution 'later' is none of sequential, overlapped"),
        ({"execution": "overlapped"}, "has no comm_launch"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    given: dict[str, object], problem: str, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    with pytest.raises(ProfileError, match=problem):
        _options(profile_of_rows(partition_row("attention", 1.0, 50.0, **given)))


def test_two_rows_of_one_configuration_are_refused(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    row = partition_row("attention", 1.0, 50.0)
    with pytest.raises(ProfileError, match=r"two rows for partition attention of the forward of stage 0"):
        _options(profile_of_rows(row, replace(row, energy_j=51.0)))
