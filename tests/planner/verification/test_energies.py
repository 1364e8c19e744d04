"""Energies that were promised: read of which GPUs, in how many iterations, and compared or not."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from energyopt.planner.verification.records import Verdict, Verification
from energyopt.planner.verification.runs import Recorded
from energyopt.planner.verification.tables import verification_tables, words
from energyopt.schemas.telemetry import Telemetry

Check = Callable[..., Verification]


def test_replicas_are_scaled_to_the_gpus_that_ran(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    found = check(job, iterations=5, ranks_per_stage=3)
    section = found.sections[0]
    assert section.energy.predicted == pytest.approx(3 * sum(job.cost(job.clocks(5))[1]))
    assert section.energy.verdict is Verdict.WITHIN
    assert "energies: GPU boards only; 6 GPUs of 6 ranks (toy)" in found.scope
    assert "energy J (6 GPUs)" in [row[0] for row in verification_tables(found)[0].rows]


def _energies(rows: Callable[[pa.Table], Any], value: float | None) -> Callable[[Telemetry], Telemetry]:
    """Other energies in some rows."""

    def change(telemetry: Telemetry) -> Telemetry:
        table = telemetry.table
        column = pc.if_else(rows(table), pa.scalar(value, pa.float64()), table["energy_j"])
        place = table.schema.get_field_index("energy_j")
        return replace(telemetry, table=table.set_column(place, table.schema.field("energy_j"), column))

    return change


def _silent(*ranks: int) -> Callable[[Telemetry], Telemetry]:
    return _energies(lambda table: pc.is_in(table["rank"], pa.array(ranks, pa.int32())), None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_silent(0, 1), "no GPU gave a reading"),
        (_energies(lambda table: pc.greater_equal(table["rank"], 0), 0.0), "no GPU gave a reading"),
        (_silent(1), "no GPU of stage 1 gave a reading"),
        (
            _energies(
                lambda table: pc.and_(pc.equal(table["rank"], 1), pc.greater(table["iteration"], 0)), None
            ),
            "1 iterations are too few for an interval",
        ),
    ],
    ids=["unread", "all 0 J", "one GPU unread", "read once"],
)
def test_an_energy_that_was_promised_and_not_measured_is_not_verified(
    recorded: ModuleType, check: Check, change: Any, why: str
) -> None:
    job = recorded.Job()
    for promise in ({}, {"profile": job.profile(fixed_time_s=job.fixed_s), "schedule": job.schedule}):
        found = check(job, iterations=20, noise=0.001, change=change, **promise)
        section = found.sections[0]
        assert (section.time.verdict, section.energy.verdict) == (Verdict.WITHIN, Verdict.UNKNOWN)
        assert found.failed
        assert words(found).startswith("NOT VERIFIED") and f"(cannot tell: {why})" in words(found)
        verification_tables(found)
    found = check(job, iterations=20, noise=0.001, change=change, time_only=True)
    assert not found.failed
    assert "(not judged: --time-only)" in words(found)


def test_energies_say_how_many_iterations_they_rest_on(recorded: ModuleType, check: Check) -> None:
    gone = _energies(lambda table: pc.greater(table["iteration"], 6), None)
    table = verification_tables(check(recorded.Job(), iterations=20, noise=0.001, change=gone))[0]
    place = table.columns.index("iterations")
    assert [row[place] for row in table.rows[:2]] == ["20", "7"]


def test_a_profile_predicts_the_gpus_that_were_read(recorded: ModuleType, check: Check) -> None:
    """One of two GPUs of stage 1 is not read: the others stand for their stages."""
    job = recorded.Job()
    profile = job.profile(fixed_time_s=job.fixed_s)
    settings = {"iterations": 5, "ranks_per_stage": 2, "change": _silent(3)}
    found = check(job, 2.0, profile=profile, schedule=job.schedule, **settings)
    section, (one, other) = found.sections[0], job.cost(job.clocks(5))[1]
    assert section.energy.predicted == pytest.approx(2 * one + other)
    assert (section.time.verdict, section.energy.verdict) == (Verdict.WITHIN, Verdict.WITHIN)
    assert "GPUs without a reading are spread unevenly" in words(check(job, **settings))
    own = check(job, stage_energy_j=(one, other), **settings)
    assert own.sections[0].energy.verdict is Verdict.WITHIN


def test_a_plan_with_energies_by_stage_names_the_stage_that_is_off(
    recorded: ModuleType, check: Check
) -> None:
    job = recorded.Job()
    one, other = job.cost(job.clocks(5))[1]
    found = check(job, stage_energy_j=(one, other * 0.9), iterations=5)
    assert found.worst == f"stage 1: its energy is off by +{100 * (1 / 0.9 - 1):.2f} %"
    assert check(job, iterations=5).worst is None


def test_energies_of_other_gpus_give_no_saving(recorded: ModuleType, check: Check) -> None:
    job = recorded.Job()
    baseline = _silent(0)(job.record([1400] * len(job.schedule.ops), alternative=None))
    found = check(job, baselines=[Recorded(file="b", telemetry=baseline)])
    assert found.saving is not None
    assert found.saving.energy is None
    assert any("no energy saving: the run's energies cover (1, 1) GPUs" in note for note in found.notes)
