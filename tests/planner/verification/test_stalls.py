"""Iterations that no plan predicts: stalls, and the run's warm-up."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pyarrow.compute as pc
import pytest

from energyopt.planner.verification.records import Verification
from energyopt.planner.verification.runs import WARM_UP, Recorded
from energyopt.planner.verification.tables import words
from energyopt.schemas.telemetry import Telemetry

Check = Callable[..., Verification]


def test_warm_up_is_left_out_unless_told_otherwise(recorded: ModuleType, check: Check) -> None:
    """The first iteration takes 15 times as long; against the same clocks nothing is saved or lost."""

    def cold(telemetry: Telemetry) -> Telemetry:
        return _times(telemetry, pc.equal(telemetry.table["iteration"], 0), 15.0)

    job = recorded.Job()
    baseline = Recorded(file="b", telemetry=cold(job.record(job.clocks(5), alternative=None, iterations=20)))
    found = check(job, iterations=200, change=cold, baselines=[baseline], skip=WARM_UP)
    assert found.saving is not None
    assert (found.saving.time.value, found.saving.iterations) == (pytest.approx(0.0, abs=1e-9), (199, 19))
    assert not found.failed
    assert "iterations: 1 to 199 as the run counts them, 199 in all, the first 1 skipped" in found.scope


def _times(telemetry: Telemetry, where: Any, factor: float) -> Telemetry:
    """Other times of some iterations."""
    table = telemetry.table
    where = pc.and_(where, pc.equal(table["level"], "iteration"))
    column = pc.if_else(where, pc.multiply(table["time_s"], factor), table["time_s"])
    place = table.schema.get_field_index("time_s")
    return replace(telemetry, table=table.set_column(place, table.schema.field("time_s"), column))


def test_stalls_are_named_and_kept_out(recorded: ModuleType, check: Check) -> None:
    def stall(telemetry: Telemetry) -> Telemetry:
        return _times(telemetry, pc.equal(telemetry.table["iteration"], 7), 1.4)

    found = check(recorded.Job(), iterations=20, change=stall)
    assert found.sections[0].stalls == (7,)
    assert found.sections[0].stall_share == pytest.approx(0.4 / 20)
    assert not found.failed
    assert any("1 iterations of the plan stalled (7)" in note and "2.00 %" in note for note in found.notes)


def test_many_stalls_leave_nothing_to_tell_and_do_not_count_in_operations(
    recorded: ModuleType, check: Check
) -> None:
    """From iteration 17 of 20 on, iterations take 30 % longer and operations three times as long."""

    def stall(telemetry: Telemetry) -> Telemetry:
        telemetry = _times(telemetry, pc.greater_equal(telemetry.table["iteration"], 17), 1.3)
        table = telemetry.table
        late = pc.and_(pc.greater_equal(table["iteration"], 17), pc.equal(table["level"], "op"))
        column = pc.if_else(late, pc.multiply(table["time_s"], 3.0), table["time_s"])
        place = table.schema.get_field_index("time_s")
        return replace(telemetry, table=table.set_column(place, table.schema.field("time_s"), column))

    job = recorded.Job()
    profile = job.profile(fixed_time_s=job.fixed_s)
    found = check(job, iterations=20, noise=0.001, change=stall, profile=profile, schedule=job.schedule)
    assert found.failed
    assert words(found).count("(cannot tell: 3 of 20 iterations stalled)") == 2
    assert [row.measured_s / row.predicted_s for row in found.work] == pytest.approx([1.0, 1.0])
