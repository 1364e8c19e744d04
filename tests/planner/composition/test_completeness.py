"""Partition rows that leave something out, or contradict each other: what is refused, and what stands in."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from energyopt.planner.composition.table import Composition, Offer, offered_options
from energyopt.planner.verification.pricing import Prices
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.profile import Profile, ProfileRow

MakeRow = Callable[..., ProfileRow]
MakeProfile = Callable[..., Profile]
KEY = OpKey(0, 0, OpKind.FORWARD)
OVERLAPPED = {"execution": "overlapped", "comm_launch": "norm"}


def _offer(profile: Profile, *, allow_missing: bool = False, most: int = 0) -> Offer:
    return offered_options(profile, [KEY], Composition(most=most, allow_missing=allow_missing))


@pytest.fixture
def unscaled(partition_row: MakeRow, op_row: MakeRow) -> list[ProfileRow]:
    """An operation of 3 s and 150 J as a whole, whose overlapped halves take 1.6 s and 80 J."""
    return [
        op_row(3.0, 150.0),
        partition_row("attention", 0.8, 40.0, nanobatches=2, count=2, **OVERLAPPED),
    ]


def test_a_clock_without_a_plain_sum_takes_the_ratio_of_the_nearest(
    partition_row: MakeRow, op_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    """Ratios of time are 1.2 at 1000 and 1.5 at 1400 MHz, of energy 1.1 and 1.3; 1200 MHz is as near to both and
    takes the lower's."""
    rows: list[ProfileRow] = []
    for clock, whole in (
        (1000, (2.4, 110.0)),
        (1100, (9.0, 900.0)),
        (1200, (9.0, 900.0)),
        (1300, (9.0, 900.0)),
    ):
        rows.append(op_row(*whole, sm_clock_mhz=clock))
        rows.append(partition_row("mlp", 1.0, 60.0, nanobatches=1, sm_clock_mhz=clock, **OVERLAPPED))
    rows.append(partition_row("mlp", 2.0, 100.0, nanobatches=1, sm_clock_mhz=1000))
    rows.append(op_row(3.0, 130.0, sm_clock_mhz=1400))
    rows.append(partition_row("mlp", 2.0, 100.0, nanobatches=1, sm_clock_mhz=1400))
    config = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="norm")
    profile = profile_of_rows(*rows)
    series = Prices(profile, [KEY]).series(KEY, (1, (("mlp", config),))).options
    assert [one.sm_clock_mhz for one in series] == [1000, 1100, 1200, 1300]
    assert [one.time_s for one in series] == pytest.approx([1.2, 1.2, 1.2, 1.5])
    assert [one.energy_j for one in series] == pytest.approx([66.0, 66.0, 66.0, 78.0])
    assert min(one.time_s for one in _offer(profile).offered[1][KEY]) == pytest.approx(1.2)


def test_what_lies_between_partitions_is_not_taken_for_nothing_in_silence(
    unscaled: list[ProfileRow], profile_of_rows: MakeProfile
) -> None:
    profile = profile_of_rows(*unscaled)
    with pytest.raises(ProfileError, match=r"forward of stage 0 has rows as a whole and no plain.*--allow-m"):
        _offer(profile)
    offer = _offer(profile, allow_missing=True)
    assert [(one.time_s, one.energy_j) for one in offer.offered[2][KEY]] == [pytest.approx((1.6, 80.0))]
    assert any("what lies between its partitions" in text for text in offer.missing)


def test_a_partition_that_the_order_names_has_to_have_rows(
    partition_row: MakeRow, op_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = [partition_row("attention", 1.0, 50.0), partition_row("attention", 0.8, 50.0, **OVERLAPPED)]

    def ordered(*rows: ProfileRow) -> Profile:
        profile = profile_of_rows(*rows)
        order = {KEY: ("attention", "mlp")}
        return replace(profile, metadata=replace(profile.metadata, partition_order=order))

    with pytest.raises(ProfileError, match="no rows to plan from of partition mlp of the forward of stage 0"):
        _offer(ordered(*rows))
    offer = _offer(ordered(*rows, partition_row("mlp", 1.0, 50.0)))
    assert offer.offered[1][KEY][0].time_s == pytest.approx(1.8)
    assert _offer(ordered(op_row(2.0, 90.0))).offered[1][KEY][0].time_s == 2.0


def test_invalid_rows_of_a_stage_do_not_hide_those_of_every_stage(
    partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    general = partition_row("mlp", 1.0, 50.0, stage=None, chunk=None)
    own = partition_row("mlp", 3.0, 70.0, invalid="throttled")
    assert _offer(profile_of_rows(general, own)).offered[1][KEY][0].time_s == 1.0
    other = replace(own, sm_clock_mhz=1100, invalid=None)
    (option,) = _offer(profile_of_rows(general, own, other), allow_missing=True).offered[1][KEY]
    assert (option.sm_clock_mhz, option.time_s) == (1100, 3.0)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([{"nanobatches": 2}, {"nanobatches": 2, "sm_clock_mhz": 1100, "count": 3}], "1 times .* 3 times"),
        ([{"nanobatches": 2}, {"nanobatches": 2, "count": 3, **OVERLAPPED}], "1 times .* 3 times"),
        ([{"nanobatches": 2}, {"nanobatches": None}], "two rows for partition mlp"),
        ([{"nanobatches": None}, {"nanobatches": 2}], "two rows for partition mlp"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    changes: Sequence[dict[str, object]], problem: str, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    rows = [partition_row("mlp", 1.0, 50.0, **change) for change in changes]
    with pytest.raises(ProfileError, match=problem):
        _offer(profile_of_rows(*rows))
    _offer(profile_of_rows(rows[0], replace(rows[1], invalid="throttled")), allow_missing=True)


@pytest.mark.parametrize("most", [1, 4])
def test_whatever_bounds_are_over_has_its_shares(
    most: int, partition_row: MakeRow, profile_of_rows: MakeProfile
) -> None:
    """Corners of the front beside the offered ones too: one SM count more each saves less time for its energy."""
    rows = [
        partition_row("mlp", 1 + 1 / sms, 40.0 + sms**2, comm_sms=sms, **OVERLAPPED) for sms in range(1, 11)
    ]
    rows.append(partition_row("mlp", 3.0, 90.0))
    offer = _offer(profile_of_rows(*rows), most=most)
    overlapping = {one for one in offer.measured[KEY] if one.partitions}
    assert len(overlapping) > len(offer.offered[1][KEY])
    assert overlapping <= offer.shares[KEY].keys()
