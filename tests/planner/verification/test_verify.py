"""Verifying plans whose truth is known: deviations, verdicts, savings, scope, what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from energyopt.planner.verification.records import Verdict, Verification
from energyopt.planner.verification.runs import Recorded
from energyopt.planner.verification.tables import verification_tables, words
from energyopt.planner.verification.verify import verify
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.plan import Alternative, Prediction
from energyopt.schemas.telemetry import Telemetry

Check = Callable[..., Verification]


def test_a_kept_promise_is_verified(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    found = check(job, iterations=30, noise=0.002)
    (section,) = found.sections
    assert (section.time.verdict, section.energy.verdict, found.failed) == (
        Verdict.WITHIN,
        Verdict.WITHIN,
        False,
    )
    total_s, energy_j = job.cost(job.clocks(5))
    assert section.time.predicted == pytest.approx(total_s)
    assert [row.energy.predicted for row in section.stages] == [None, None]
    measured = [row.energy.measured.mean for row in section.stages if row.energy.measured]
    assert measured == pytest.approx(energy_j, rel=0.002)
    assert words(found).startswith("verified, tolerance +-2 %: time ")


@pytest.mark.parametrize(
    ("time", "energy", "verdicts"),
    [
        (0.95, 1.0, (Verdict.BEYOND, Verdict.WITHIN)),
        (1.0, 1.05, (Verdict.WITHIN, Verdict.BEYOND)),
        (1 / 1.0199, 1.0, (Verdict.UNKNOWN, Verdict.WITHIN)),
    ],
)
def test_a_broken_promise_fails(
    recorded: ModuleType, check: Check, time: float, energy: float, verdicts: tuple[Verdict, Verdict]
) -> None:
    found = check(recorded.Job(), time, energy, iterations=12, noise=0.001)
    assert (found.sections[0].time.verdict, found.sections[0].energy.verdict) == verdicts
    assert found.failed
    assert words(found).startswith("NOT VERIFIED")
    assert ("record more iterations" in words(found)) == (Verdict.UNKNOWN in verdicts)


def test_two_iterations_give_no_interval_and_verify_nothing(recorded: ModuleType, check: Check) -> None:
    found = check(recorded.Job(), iterations=2)
    assert found.sections[0].time.verdict is Verdict.UNKNOWN
    assert found.failed
    assert "no interval (cannot tell: 2 iterations are too few for an interval)" in words(found)


def test_times_that_differ_between_plan_and_profile_are_said(recorded: ModuleType, check: Check) -> None:
    found = check(
        recorded.Job(), profile=recorded.Job().profile(fixed_time_s=0.5), schedule=recorded.Job().schedule
    )
    assert "the prediction uses the profile's fixed time, 0.5 s, not the plan's 0 s" in found.notes


def test_a_profile_of_another_gpu_is_said_and_of_other_degrees_refused(
    recorded: ModuleType, check: Check
) -> None:
    job = recorded.Job()
    other = job.profile(fixed_time_s=job.fixed_s, device_name="another")
    assert (
        "the profile is of another, and t ran on toy"
        in check(job, profile=other, schedule=job.schedule).notes
    )
    for metadata, message in (
        ({"workload": {"tp": 8}}, "the profile was measured with tensor_parallel 8, t ran with 1"),
        ({"gpus_per_stage": 8}, "the profile's rows stand for 8 GPUs of a stage, t ran with 1"),
    ):
        with pytest.raises(NotComparableError, match=message):
            check(job, profile=job.profile(**metadata), schedule=job.schedule)


def test_the_stage_that_is_off_most_is_named(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job(time_factor=lambda key: 1.1 if key.stage == 1 else 1.01)
    found = check(job, iterations=5, profile=recorded.Job().profile(), schedule=job.schedule)
    assert found.worst is not None
    assert found.worst.startswith("stage 1: its operations take ")
    assert found.worst.endswith("(+10.00 %)")


def test_clocks_that_were_not_held_are_named_with_the_reason(recorded: ModuleType, check: Check) -> None:
    def capped(telemetry: Telemetry) -> Telemetry:
        table = telemetry.table
        first = pc.and_(pc.equal(table["stage"], 0), pc.equal(table["op"], "backward"))
        for name, value in (("achieved_sm_clock_mhz", 500), ("throttle", 4)):
            column = pc.if_else(first, value, table[name]).cast(table[name].type)
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
        return replace(telemetry, table=table)

    job = recorded.Job()
    asked = next(
        clock for op, clock in zip(job.schedule.ops, job.clocks(5), strict=True) if op.kind == "backward"
    )
    found = check(job, iterations=10, change=capped)
    assert (
        "40 of 160 recorded operations ran more than 2 % below the clock asked for, the backward of stage 0 at "
        f"500 of {asked} MHz (power cap)"
    ) in found.notes


def test_only_alternatives_that_ran_are_priced(recorded: ModuleType, check: Check) -> None:
    """The profile has no row anywhere near the clocks of one that did not run."""
    job = recorded.Job()
    far = Alternative(
        predicted=Prediction(iteration_time_s=9.0, energy_j=9.0),
        stages=job.plan([300] * len(job.schedule.ops)).stages,
    )
    profile = job.profile(fixed_time_s=job.fixed_s)
    found = check(job, iterations=5, alternatives=(far,), profile=profile, schedule=job.schedule)
    assert [one.alternative for one in found.sections] == [0]


def test_alternatives_are_judged_by_their_own_predictions(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    slow = [900] * len(job.schedule.ops)
    total_s, energy_j = job.cost(slow)
    other = Alternative(
        predicted=Prediction(iteration_time_s=total_s * 1.1, energy_j=sum(energy_j)),
        stages=job.plan(slow).stages,
    )

    iterations = 4

    def both(telemetry: Telemetry) -> Telemetry:
        more = job.record(slow, iterations=iterations, alternative=1, first=20)
        return replace(telemetry, table=pa.concat_tables([telemetry.table, more.table]))

    found = check(job, iterations=5, alternatives=(other,), change=both)
    assert "(not judged: fewer than 8 iterations)" in words(found)
    assert not found.failed
    iterations = 8
    found = check(job, iterations=5, alternatives=(other,), change=both)
    verdicts = [(one.alternative, one.time.verdict, one.energy.verdict) for one in found.sections]
    assert verdicts == [(0, Verdict.WITHIN, Verdict.WITHIN), (1, Verdict.BEYOND, Verdict.WITHIN)]
    assert "alternative 1: time -9.09 %" in words(found)


def test_the_saving_is_measured_against_a_baseline_run_only(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    top = [1400] * len(job.schedule.ops)
    top_s, top_j = job.cost(top)
    own_s, own_j = job.cost(job.clocks(5))
    baseline = Recorded(
        file="b", telemetry=job.record(top, iterations=10, alternative=None, noise=0.001, seed=3)
    )
    found = check(job, iterations=10, noise=0.001, baselines=[baseline]).saving
    assert found is not None and found.measured and found.energy is not None
    assert found.energy.low is not None and found.energy.high is not None
    assert found.energy.low <= sum(own_j) / sum(top_j) - 1 <= found.energy.high
    assert found.time.value == pytest.approx(own_s / top_s - 1, abs=0.002)
    predicted = check(job, iterations=10).saving
    assert predicted is not None and not predicted.measured and predicted.energy is not None
    assert predicted.energy.value == pytest.approx(sum(own_j) / sum(top_j) - 1)
    assert predicted.energy.low is None


def test_a_baseline_that_ran_a_plan_is_said(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    baseline = Recorded(file="b", telemetry=job.record([1400] * len(job.schedule.ops)))
    assert any(
        "the baseline run set clocks itself" in note for note in check(job, baselines=[baseline]).notes
    )


def test_a_run_that_never_ran_the_plan_is_refused(recorded: ModuleType, check: Check) -> None:
    with pytest.raises(
        NotComparableError, match=r"none of its 20 iterations ran the plan .* give it as --baseline"
    ):
        check(recorded.Job(), alternative=None)


def test_a_plan_without_prediction_needs_a_profile(recorded: ModuleType, tmp_path: Path) -> None:
    job = recorded.Job()
    clocks = job.clocks(1)
    plan = job.plan(clocks, predicted=None)
    file, digest = recorded.write(plan, tmp_path)
    run = Recorded(file="t", telemetry=job.record(clocks, plan_sha256=digest))
    with pytest.raises(NotComparableError, match="give a profile with --profile"):
        verify(plan, file, run)
    assert (
        verify(plan, file, run, profile=job.profile(fixed_time_s=0.05), schedule=job.schedule).failed is False
    )


def test_many_clocks_make_no_endless_table(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job(stages=4, microbatches=30)
    job.clocks = lambda _: [900 + 100 * (op.microbatch % 6) for op in job.schedule.ops]
    found = check(job, iterations=3)
    table = verification_tables(found)[-1]
    assert len(found.ops) == 48
    assert "the 40 of 48 rows with the most time" in table.title
    assert 40 <= len(table.rows) < 48
