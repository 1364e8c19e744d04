"""Verifying plans that overlap partitions: each operation against what its own configuration costs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.selection import by_name, to_plan
from energyopt.planner.simulation import simulate
from energyopt.planner.verification.records import Verdict, Verification
from energyopt.planner.verification.runs import Recorded
from energyopt.planner.verification.verify import verify
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.options import Option
from energyopt.schemas.plan import Plan
from energyopt.schemas.profile import Profile
from energyopt.schemas.telemetry import Telemetry


class Case(NamedTuple):
    """A plan that overlaps, the options that it runs, and a run that takes and draws just what these cost."""

    plan: Plan
    options: list[Option]
    profile: Profile
    schedule: Any
    record: Callable[[str], Telemetry]

    def verify(self, folder: Path, recorded: ModuleType, **settings: Any) -> Verification:
        """With 0.1 % of noise from iteration to iteration."""
        file, digest = recorded.write(self.plan, folder)
        given = {"profile": self.profile, "schedule": self.schedule, "skip": 0} | settings
        return verify(self.plan, file, Recorded(file="t", telemetry=self.record(digest)), **given)


@pytest.fixture
def case(recorded: ModuleType, partition_job: Callable[..., Any]) -> Case:
    """The cheapest plan of a random job whose wait power is 70 W, as is the recorded one's."""
    profile, pipeline, schedule = partition_job(3, whole=1.05)
    frontier = plan_frontier(profile, pipeline, schedule, points=6)
    point = frontier.points[-1]
    options = [
        frontier.options[op.key][choice] for op, choice in zip(schedule.ops, point.choices, strict=True)
    ]

    class Ran(recorded.Job):  # type: ignore[misc, name-defined]
        def times_s(self, _: Any) -> list[float]:
            return [one.time_s for one in options]

        def cost(self, clocks: Any) -> tuple[float, list[float]]:
            total_s = simulate(schedule, self.times_s(clocks), 0.0, 0.0).iteration_time_s
            energy = [70.0 * total_s] * 2
            for op, one in zip(schedule.ops, options, strict=True):
                energy[op.stage] += one.energy_j - 70.0 * one.time_s
            return total_s, energy

    def record(digest: str) -> Telemetry:
        clocks = [one.sm_clock_mhz for one in options]
        job = Ran(stages=2, microbatches=2)
        found: Telemetry = job.record(clocks, iterations=12, noise=0.001, plan_sha256=digest)
        return found

    plan = to_plan(frontier, by_name(frontier, str(len(frontier.points) - 1)))
    return Case(plan, options, profile, schedule, record)


def test_the_plan_is_one_that_overlaps(case: Case) -> None:
    assert any(one.partitions for one in case.options)


def test_a_kept_promise_is_verified_with_the_profile(
    case: Case, recorded: ModuleType, tmp_path: Path
) -> None:
    found = case.verify(tmp_path, recorded)
    (section,) = found.sections
    assert (section.time.verdict, section.energy.verdict) == (Verdict.WITHIN, Verdict.WITHIN)
    assert case.plan.predicted is not None
    assert section.time.predicted == pytest.approx(case.plan.predicted.iteration_time_s, rel=1e-8)
    assert section.energy.predicted == pytest.approx(case.plan.predicted.energy_j, rel=1e-8)


def test_operations_are_compared_with_their_own_configurations(
    case: Case, recorded: ModuleType, tmp_path: Path
) -> None:
    found = case.verify(tmp_path, recorded)
    for row in found.ops:
        assert row.time.deviation is not None
        assert row.time.deviation.value == pytest.approx(0.0, abs=1e-9)
    assert [row.measured_s / row.predicted_s for row in found.work] == pytest.approx([1.0, 1.0])


def test_a_profile_that_lacks_the_configurations_judges_nothing(
    case: Case, recorded: ModuleType, tmp_path: Path
) -> None:
    sequential = tuple(row for row in case.profile.rows if row.execution != "overlapped")
    found = case.verify(tmp_path, recorded, profile=replace(case.profile, rows=sequential))
    (section,) = found.sections
    for one in (section.time, section.energy):
        assert (one.verdict, one.predicted) == (Verdict.UNKNOWN, None)
        assert one.why == "the profile does not tell what the plan costs"
    assert found.failed
    (note,) = (note for note in found.notes if "the profile cannot price" in note)
    assert "was not measured overlapped" in note
    overlapped = {
        (op.key, one.sm_clock_mhz)
        for op, one in zip(case.schedule.ops, case.options, strict=True)
        if one.partitions
    }
    for row in found.ops:
        is_overlapped = ((row.stage, row.chunk, row.op), row.sm_clock_mhz) in overlapped
        assert (row.time.predicted is None) == is_overlapped


def test_its_own_prediction_can_be_judged_without_the_profile(
    case: Case, recorded: ModuleType, tmp_path: Path
) -> None:
    found = case.verify(tmp_path, recorded, profile=None, schedule=None)
    assert not found.failed


def test_equal_clocks_do_not_make_it_a_run_of_this_plan(
    case: Case, recorded: ModuleType, tmp_path: Path
) -> None:
    file, _ = recorded.write(case.plan, tmp_path)
    with pytest.raises(
        NotComparableError, match="do not record nanobatches and partitions, which this plan sets"
    ):
        verify(case.plan, file, Recorded(file="t", telemetry=case.record("ab" * 32)))
    plain = tuple(tuple(replace(op, nanobatches=1, partitions=()) for op in ops) for ops in case.plan.stages)
    plan = replace(case.plan, stages=plain)
    file, _ = recorded.write(plan, tmp_path)
    found = verify(plan, file, Recorded(file="t", telemetry=case.record("ab" * 32)))
    assert any("with the same clock for every operation" in note for note in found.notes)
