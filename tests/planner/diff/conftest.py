"""A report of the small plan against a changed one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from energyopt.planner.diff.compare import compare_plans
from energyopt.planner.diff.interface import Report
from energyopt.planner.diff.thresholds import Limits, judge
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import Plan

MakePlan = Callable[..., Plan]


@pytest.fixture
def make_plan(small_plan: Plan) -> MakePlan:
    """The small plan with another prediction."""

    def make(**predicted: float | None) -> Plan:
        assert small_plan.predicted is not None
        return replace(small_plan, predicted=replace(small_plan.predicted, **predicted))

    return make


@pytest.fixture
def overlap() -> Callable[..., Plan]:
    """A plan whose first forward of stage 0 cuts its microbatch and overlaps its attention on some SMs."""

    def make(plan: Plan, sms: int | None = 8, launch: str = "rope", nanobatches: int = 2) -> Plan:
        config = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=sms, comm_launch=launch)
        first, *others = plan.stages[0]
        changed = replace(first, nanobatches=nanobatches, partitions=(("attention", config),))
        return replace(plan, stages=((changed, *others), plan.stages[1]))

    return make


@pytest.fixture
def report_of() -> Callable[[Plan, Plan], Report]:
    """The judged comparison of two plans."""

    def make(old: Plan, new: Plan) -> Report:
        comparison = compare_plans(old, new, allow=frozenset())
        return Report(
            old_file="old.json",
            new_file="new.json",
            comparison=comparison,
            limits=Limits(),
            failures=judge(comparison, Limits()),
        )

    return make


@pytest.fixture
def worse_report(small_plan: Plan, make_plan: MakePlan) -> Report:
    """Energy from 3975 J to 4040 J (+1.635 %), one clock changed, another profile, a name of markup."""
    first, second = small_plan.stages
    slowed = (replace(second[0], sm_clock_mhz=1000), *second[1:])
    new = replace(make_plan(energy_j=4040.0), stages=(first, slowed), profile_sha256="cd" * 32)
    named = {"device_name": "A|B [bold]x[/bold] 100%\nC"}
    comparison = compare_plans(replace(small_plan, **named), replace(new, **named), allow=frozenset())
    return Report(
        old_file="old.json",
        new_file="new.json",
        comparison=comparison,
        limits=Limits(),
        failures=judge(comparison, Limits()),
    )
