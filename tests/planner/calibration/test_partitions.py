"""Calibrating profiles that have partitions: their rows stay, and runs correct what is composed of them."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from energyopt.planner.calibration.calibrate import calibrate
from energyopt.planner.calibration.records import Calibration
from energyopt.planner.composition.table import Composition, offered_options
from energyopt.planner.verification.runs import Recorded
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.profile import Level, Profile, ProfileRow

SLOWER = 1.07  # how much longer operations of the runs take than profiled
CLOCKS = (900, 1000, 1100, 1200, 1300, 1400)
Fit = Callable[[Profile], Calibration]


@pytest.fixture
def fit(recorded: ModuleType) -> Fit:
    """Calibrate with ten runs of plain plans, whose operations take 7 % longer than the formula says."""
    job = recorded.Job(time_factor=lambda _: SLOWER)

    def run(profile: Profile) -> Calibration:
        runs = [
            Recorded(file=f"run {seed}", telemetry=job.record(job.clocks(seed), iterations=5))
            for seed in range(10)
        ]
        return calibrate(runs, job.schedule, profile=profile)

    return run


def _partitions(row: ProfileRow) -> list[ProfileRow]:
    """Two partitions that make up an operation, 3 to 7, whole, and in halves that overlap in 0.8 of the time."""
    return [
        replace(
            row,
            level=Level.PARTITION,
            partition=name,
            count=nanobatches,
            execution="sequential" if nanobatches == 1 else "overlapped",
            comm_launch=None if nanobatches == 1 else "norm",
            nanobatches=nanobatches,
            time_s=factor * share * row.time_s / nanobatches,
            energy_j=factor * share * row.energy_j / nanobatches,
        )
        for name, share in (("attention", 0.3), ("mlp", 0.7))
        for nanobatches, factor in ((1, 1.0), (2, 0.8))
    ]


@pytest.fixture
def overlapped(recorded: ModuleType) -> Profile:
    """The formula's profile, with partitions."""
    profile: Profile = recorded.Job().profile()
    return replace(profile, rows=(*profile.rows, *(one for row in profile.rows for one in _partitions(row))))


def test_the_rows_of_partitions_stay_as_they_were(fit: Fit, overlapped: Profile) -> None:
    found = fit(overlapped).profile.rows
    assert [row for row in found if row.level is Level.PARTITION] == [
        row for row in overlapped.rows if row.level is Level.PARTITION
    ]
    assert sum(row.level is Level.OP for row in found) == 4 * len(CLOCKS)


def test_overlapped_options_are_corrected_as_the_operations_are(fit: Fit, overlapped: Profile) -> None:
    """At each clock the overlapped halves take 0.8 of the whole, before and after."""
    keys = [OpKey(stage, 0, kind) for stage in (0, 1) for kind in (OpKind.FORWARD, OpKind.BACKWARD)]
    before, after = (
        offered_options(profile, keys, Composition(most=0)).measured
        for profile in (overlapped, fit(overlapped).profile)
    )
    for key in keys:
        for one, other in zip(before[key], after[key], strict=True):
            assert (one.sm_clock_mhz, one.partitions) == (other.sm_clock_mhz, other.partitions)
            assert other.time_s == pytest.approx(SLOWER * one.time_s, rel=1e-6)
        whole = {one.sm_clock_mhz: one for one in after[key] if one.is_plain}
        for one in after[key]:
            if not one.is_plain:
                assert one.time_s == pytest.approx(0.8 * whole[one.sm_clock_mhz].time_s)
                assert one.energy_j == pytest.approx(0.8 * whole[one.sm_clock_mhz].energy_j)


def test_it_is_said_that_runs_are_taken_to_be_plain(fit: Fit, overlapped: Profile) -> None:
    notes = " ".join(fit(overlapped).notes)
    assert f"{4 * 4 * len(CLOCKS)} rows of partitions are kept as they were measured" in notes
    assert "leave out runs of plans that do" in notes


def test_partitions_that_say_no_more_than_their_operations_are_left_out(
    fit: Fit, overlapped: Profile
) -> None:
    rows = tuple(replace(row, nanobatches=None) for row in overlapped.rows if row.execution != "overlapped")
    found = fit(replace(overlapped, rows=rows))
    assert {row.level for row in found.profile.rows} == {Level.OP}
    assert "rows of partitions and kernels are left out: plans use rows of operations alone" in found.notes


def test_a_profile_of_partitions_alone_is_corrected_by_their_plain_sums(
    fit: Fit, overlapped: Profile
) -> None:
    rows = tuple(row for row in overlapped.rows if row.level is Level.PARTITION)
    found = fit(replace(overlapped, rows=rows))
    assert [one.time_ratio for one in found.ops] == pytest.approx([SLOWER] * 4)
    assert sum(row.level is Level.OP for row in found.profile.rows) == 4 * len(CLOCKS)


def test_partitions_that_always_cut_the_microbatch_say_nothing_of_plain_runs(
    fit: Fit, overlapped: Profile
) -> None:
    rows = tuple(row for row in overlapped.rows if row.nanobatches == 2)
    with pytest.raises(
        ProfileError, match=r"does not tell what runs cost that follow no plan: it has no .*whole"
    ):
        fit(replace(overlapped, rows=rows))


def test_every_operation_needs_rows(fit: Fit, overlapped: Profile) -> None:
    rows = tuple(row for row in overlapped.rows if row.op is not OpKind.BACKWARD)
    with pytest.raises(ProfileError, match="no usable row for backward of stage 0"):
        fit(replace(overlapped, rows=rows))


def test_any_profile_can_be_corrected_again(fit: Fit, overlapped: Profile) -> None:
    once: Any = fit(overlapped)
    again = fit(once.profile)
    assert [one.time_ratio for one in again.ops] == pytest.approx([1.0] * 4, rel=1e-6)
