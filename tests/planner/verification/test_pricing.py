"""What a profile says that operations cost which cut their microbatch and overlap partitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.selection import by_name, to_plan
from energyopt.planner.verification.prediction import UnpricedError, planned_times_s, predict, stages_of
from energyopt.planner.verification.pricing import PLAIN_MANNER, Manner, Prices
from energyopt.schemas.errors import ProfileError
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig, Partitions
from energyopt.schemas.planned_ops import PlannedOp, Stages
from energyopt.schemas.profile import Level, Profile

KEY = OpKey(0, 0, OpKind.FORWARD)
NORM = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=4, comm_launch="norm")
ROPE = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope")
MIXED: Manner = (2, (("attention", NORM), ("mlp", ROPE)))


def _sum(profile: Profile, clock: int, manner: Manner) -> tuple[float, float]:
    """Time and energy of the forward of stage 0, looked up row by row."""
    count, partitions = manner
    configs = dict(partitions)
    time_s = energy_j = 0.0
    for row in profile.rows:
        config = configs.get(str(row.partition), PLAIN)
        wanted = (clock, config.execution, config.comm_sms, config.comm_launch)
        found = (row.sm_clock_mhz, row.execution, row.comm_sms, row.comm_launch)
        is_own = (row.stage, row.op, row.level) == (0, OpKind.FORWARD, Level.PARTITION)
        if is_own and found == wanted and row.nanobatches in (None, count):
            time_s, energy_j = time_s + row.count * row.time_s, energy_j + row.count * row.energy_j
    return time_s, energy_j


def _stages(job: Any, **changes: Any) -> Stages:
    """Every operation plain at 1400 MHz, but for the first forward of stage 0."""
    first, *others = stages_of(job.schedule, [1400] * len(job.schedule.ops))
    return ((replace(first[0], **changes), *first[1:]), *others)


@pytest.mark.parametrize("manner", [MIXED, (2, ()), (2, (("mlp", NORM),))], ids=["both", "none", "one"])
def test_an_operation_costs_what_its_partitions_cost(
    partition_job: Callable[..., Any], manner: Manner
) -> None:
    profile = partition_job(0).profile
    options = Prices(profile, [KEY]).series(KEY, manner).options
    assert [one.sm_clock_mhz for one in options] == [1000, 1200, 1400]
    for one in options:
        expected = _sum(profile, one.sm_clock_mhz, manner)
        assert (one.time_s, one.energy_j) == pytest.approx(expected)


def test_it_is_scaled_by_the_operations_own_row(partition_job: Callable[..., Any]) -> None:
    """Whose time and energy are 1.25 times what its plain partitions take together."""
    profile = partition_job(0, whole=1.25).profile
    for one in Prices(profile, [KEY]).series(KEY, MIXED).options:
        time_s, energy_j = _sum(profile, one.sm_clock_mhz, MIXED)
        assert (one.time_s, one.energy_j) == pytest.approx((1.25 * time_s, 1.25 * energy_j))


def test_a_plain_operation_costs_its_own_row_or_its_plain_partitions(
    partition_job: Callable[..., Any],
) -> None:
    with_row, without = (partition_job(0, whole=whole).profile for whole in (1.25, None))
    expected_s, _ = _sum(without, 1400, PLAIN_MANNER)
    assert Prices(without, [KEY]).series(KEY).options[-1].time_s == pytest.approx(expected_s)
    assert Prices(with_row, [KEY]).series(KEY).options[-1].time_s == pytest.approx(1.25 * expected_s)


@pytest.mark.parametrize("whole", [None, 1.1])
@pytest.mark.parametrize("seed", range(2))
def test_a_plan_is_priced_as_it_was_planned(
    partition_job: Callable[..., Any], seed: int, whole: float | None
) -> None:
    """A plan file keeps nine digits."""
    profile, pipeline, schedule = partition_job(seed, whole=whole, fixed_time_s=0.25, p2p_time_s=0.01)
    frontier = plan_frontier(profile, pipeline, schedule, points=6)
    overlapped = 0
    for index in range(len(frontier.points)):
        plan = to_plan(frontier, by_name(frontier, str(index)))
        overlapped += sum(bool(op.partitions) for ops in plan.stages for op in ops)
        found = predict(plan.stages, pipeline, schedule, profile)
        assert plan.predicted is not None and plan.predicted.stage_energy_j is not None
        assert found.iteration_time_s == pytest.approx(plan.predicted.iteration_time_s, rel=1e-8)
        assert found.stage_energy_j == pytest.approx(plan.predicted.stage_energy_j, rel=1e-8)
        assert (found.between, found.beyond) == (0, 0)
    assert overlapped


def test_between_two_clocks_lies_a_straight_line(partition_job: Callable[..., Any]) -> None:
    job = partition_job(0)
    stages = _stages(job, sm_clock_mhz=1300, nanobatches=2, partitions=MIXED[1])
    found = predict(stages, job.pipeline, job.schedule, job.profile)
    assert (found.between, found.beyond) == (1, 0)
    ends = [_sum(job.profile, clock, MIXED)[0] for clock in (1200, 1400)]
    times = planned_times_s(stages, job.profile)
    assert times[KEY, 1300] == pytest.approx(sum(ends) / 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nanobatches": 4}, "it has no partition rows of the forward of stage 0 in 4 nanobatches"),
        (
            {"nanobatches": 2, "partitions": (("router", NORM),)},
            "partition router of the forward of stage 0 was not measured overlapped, 4 SMs, before norm",
        ),
        (
            {"nanobatches": 2, "partitions": (("mlp", replace(ROPE, comm_sms=9)),)},
            "partition mlp of the forward of stage 0 was not measured overlapped, 9 SMs, before rope",
        ),
        (
            {"nanobatches": 1, "partitions": (("mlp", ROPE),)},
            "partition mlp of the forward of stage 0 was not measured overlapped, 8 SMs, before rope",
        ),
        (
            {"nanobatches": 2, "partitions": (("mlp", replace(ROPE, sm_clock_mhz=1200)),)},
            "partitions of the forward of stage 0 have clocks of their own",
        ),
        (
            {"nanobatches": 2, "partitions": MIXED[1], "sm_clock_mhz": 1410},
            "the partitions of the forward of stage 0, as planned, at 1000 to 1400 MHz, not at 1410",
        ),
    ],
)
def test_what_was_not_measured_is_not_priced(
    partition_job: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    job = partition_job(0)
    stages = _stages(job, **changes)
    with pytest.raises(UnpricedError, match=f"cannot price 1 of 8 operations: .*{words}.*; give the profile"):
        predict(stages, job.pipeline, job.schedule, job.profile)
    clock = changes.get("sm_clock_mhz", 1400)
    assert planned_times_s(stages, job.profile)[KEY, clock] is None


def test_a_search_may_measure_a_configuration_at_one_clock(partition_job: Callable[..., Any]) -> None:
    profile = partition_job(0).profile
    rows = tuple(row for row in profile.rows if row.comm_sms != 8 or row.sm_clock_mhz == 1200)
    (option,) = Prices(replace(profile, rows=rows), [KEY]).series(KEY, MIXED).options
    assert (option.sm_clock_mhz, option.time_s) == (1200, pytest.approx(_sum(profile, 1200, MIXED)[0]))


def test_configurations_that_were_never_measured_at_one_clock(partition_job: Callable[..., Any]) -> None:
    profile = partition_job(0).profile
    clocks = {4: 1000, 8: 1400}
    rows = tuple(
        row for row in profile.rows if clocks.get(row.comm_sms or 0, row.sm_clock_mhz) == row.sm_clock_mhz
    )
    found = Prices(replace(profile, rows=rows), [KEY]).series(KEY, MIXED)
    assert found.options == ()
    assert (
        found.why
        == "at no clock were all partitions of the forward of stage 0 measured as the plan runs them"
    )


def test_operations_of_one_clock_that_differ_are_compared_by_their_mean(
    partition_job: Callable[..., Any],
) -> None:
    profile = partition_job(0).profile
    manners: list[tuple[int, Partitions]] = [PLAIN_MANNER, MIXED]
    ops = tuple(
        PlannedOp(
            op=OpKind.FORWARD,
            chunk=0,
            microbatch=number,
            sm_clock_mhz=1200,
            nanobatches=manner[0],
            partitions=manner[1],
        )
        for number, manner in enumerate(manners)
    )
    expected = sum(_sum(profile, 1200, manner)[0] for manner in manners) / 2
    assert planned_times_s((ops,), profile) == {(KEY, 1200): pytest.approx(expected)}


def test_an_operation_without_any_row_is_refused(partition_job: Callable[..., Any]) -> None:
    key = OpKey(7, 0, OpKind.FORWARD)
    with pytest.raises(ProfileError, match="no usable row for forward of stage 7"):
        Prices(partition_job(0).profile, [key]).series(key)


def test_an_operation_without_partitions_costs_what_its_row_says(random_job: Callable[..., Any]) -> None:
    profile = random_job(1).profile
    option: Option = Prices(profile, [KEY]).series(KEY).options[-1]
    row = max(
        (row for row in profile.rows if (row.stage, row.op) == (0, KEY.kind)), key=lambda r: r.sm_clock_mhz
    )
    assert (option.time_s, option.energy_j) == (row.time_s, row.energy_j)
