"""Comparing plans and frontiers; expected values follow from the job in tests/conftest.py."""

from dataclasses import replace

import pytest

from energyopt.planner.diff.compare import compare_frontiers, compare_plans
from energyopt.planner.diff.records import Change, Group
from energyopt.schemas.errors import NotComparableError
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Alternative, Plan

NOTHING: frozenset[str] = frozenset()


def _change(group: Group, quantity: str) -> Change:
    return next(one for one in group.changes if one.quantity == quantity)


def test_a_plan_against_itself_has_no_difference(small_plan: Plan) -> None:
    found = compare_plans(small_plan, small_plan, allow=NOTHING)
    assert {one.absolute for group in found.groups for one in group.changes} == {0.0}
    assert sum(row.changed for row in found.clocks) == 0
    assert found.notes == ()


def test_absolute_and_relative_changes(small_plan: Plan) -> None:
    assert small_plan.predicted is not None
    new = replace(small_plan, predicted=replace(small_plan.predicted, energy_j=4372.5, lower_bound_j=None))
    predicted = compare_plans(small_plan, new, allow=NOTHING).groups[0]
    energy, bound = _change(predicted, "energy_j"), _change(predicted, "lower_bound_j")
    assert (energy.absolute, energy.relative) == (397.5, pytest.approx(0.1))
    assert (bound.old, bound.new, bound.absolute, bound.relative) == (3960.0, None, None, None)


def test_a_change_from_zero_has_no_relative_value() -> None:
    assert Change(quantity="energy_j", old=0.0, new=5.0).relative is None


def test_absent_baselines_and_predictions_are_null(small_plan: Plan) -> None:
    new = replace(small_plan, predicted=None, max_clock=None)
    found = compare_plans(small_plan, new, allow=NOTHING)
    assert [(group.in_old, group.in_new) for group in found.groups] == [
        (True, False),
        (True, False),
        (True, True),
    ]
    assert _change(found.groups[1], "energy_j").new is None


def test_clocks_per_stage_and_kind(small_plan: Plan) -> None:
    """Stage 0's forwards go from 1400 and 1000 MHz to 1000 and 1000 MHz."""
    first, second = small_plan.stages
    new = replace(small_plan, stages=((replace(first[0], sm_clock_mhz=1000), *first[1:]), second))
    rows = compare_plans(small_plan, new, allow=NOTHING).clocks
    assert len(rows) == 4
    row = next(row for row in rows if (row.stage, row.kind) == (0, OpKind.FORWARD))
    assert row.old is not None and row.new is not None
    assert (row.common, row.changed) == (2, 1)
    assert (row.old.mean_mhz, row.old.min_mhz, row.old.max_mhz) == (1200.0, 1000, 1400)
    assert (row.new.mean_mhz, row.new.min_mhz, row.new.max_mhz) == (1000.0, 1000, 1000)
    assert sum(other.changed for other in rows) == 1


def test_only_stages_of_both_plans_have_clock_rows(small_plan: Plan) -> None:
    longer = replace(
        small_plan, pipeline=Pipeline(stages=3, microbatches=2), stages=(*small_plan.stages, ()), gpus=3
    )
    found = compare_plans(small_plan, longer, allow=frozenset({"stages"}))
    assert {row.stage for row in found.clocks} == {0, 1}
    assert "clocks and partitions of stage 2 are left out: only NEW has them" in found.notes
    assert "different jobs, allowed: totals cover 2 GPUs and 3 GPUs" in found.notes


@pytest.mark.parametrize(
    ("changes", "allow", "words"),
    [
        ({"device_name": "B200"}, "device", "device_name is 'GPU [bold]x[/bold]' and 'B200'"),
        ({"device_kind": "nvml"}, "device", "device_kind is 'simulated' and 'nvml'"),
        ({"pipeline": Pipeline(stages=2, microbatches=4)}, "microbatches", "microbatches is 2 and 4"),
        (
            {"pipeline": Pipeline(stages=2, microbatches=2, schedule="gpipe")},
            "schedule",
            "schedule is 1f1b and gpipe",
        ),
        (
            {"pipeline": Pipeline(stages=2, microbatches=2, chunks_per_stage=2)},
            "schedule",
            "chunks_per_stage is 1 and 2",
        ),
        ({"pipeline": Pipeline(stages=3, microbatches=2)}, "stages", "stages is 2 and 3"),
        (
            {"pipeline": Pipeline(stages=2, microbatches=2, tensor_parallel=8)},
            "degrees",
            "tensor_parallel is 1 and 8",
        ),
        ({"gpus": 16}, "degrees", "totals cover 2 GPUs and 16 GPUs"),
    ],
)
def test_another_job_is_refused_unless_allowed(
    small_plan: Plan, changes: dict[str, object], allow: str, words: str
) -> None:
    other = replace(small_plan, **changes)  # type: ignore[arg-type]
    with pytest.raises(NotComparableError) as refused:
        compare_plans(small_plan, other, allow=NOTHING)
    assert str(refused.value).startswith(f"cannot compare: {words}; --allow {allow}")
    notes = compare_plans(small_plan, other, allow=frozenset({allow})).notes
    assert any(words in note for note in notes)


def test_allowing_something_else_is_not_enough(small_plan: Plan) -> None:
    with pytest.raises(NotComparableError, match="device_name"):
        compare_plans(small_plan, replace(small_plan, device_name="B200"), allow=frozenset({"stages"}))


def test_an_equal_schedule_name_does_not_hide_another_order(small_plan: Plan) -> None:
    first, second = small_plan.stages
    other = replace(small_plan, stages=((first[1], first[0], *first[2:]), second))
    with pytest.raises(NotComparableError, match="operations of schedule 1f1b, or their order, differ"):
        compare_plans(small_plan, other, allow=NOTHING)


def test_differences_that_are_only_reported(small_frontier: Frontier) -> None:
    other = replace(
        small_frontier,
        profile_sha256="cd" * 32,
        wait_power_w=90.0,
        pipeline=Pipeline(stages=2, microbatches=2, p2p_time_s=0.5),
    )
    assert compare_frontiers(small_frontier, other, allow=NOTHING).notes == (
        "made from different profiles: abababababab and cdcdcdcdcdcd",
        "wait power is 100 W and 90 W",
        "p2p_time_s is 0 and 0.5",
    )


def test_energies_of_different_scope_are_never_compared(small_frontier: Frontier) -> None:
    everything = frozenset({"device", "microbatches", "schedule", "stages", "degrees"})
    with pytest.raises(NotComparableError, match="of scope gpu_board and NEW's of scope module"):
        compare_frontiers(small_frontier, replace(small_frontier, scope="module"), allow=everything)


def test_named_points_of_frontiers(small_frontier: Frontier) -> None:
    found = compare_frontiers(small_frontier, small_frontier, allow=NOTHING)
    assert [group.name for group in found.groups] == [
        "fastest",
        "max_clock_time",
        "min_energy",
        "best_edp",
        "max_clock baseline",
    ]
    assert _change(found.groups[2], "energy_j").old == 3750.0
    assert [group.judged for group in found.groups] == [True] * 4 + [False]


def test_energy_at_the_old_points_times_is_a_step_function(small_frontier: Frontier) -> None:
    """New points at 9.1 s (3960 J) and 11 s (3800 J): nothing meets 9 s, the first meets 9.25 s."""
    points = (
        replace(small_frontier.points[1], iteration_time_s=9.1, energy_j=3960.0),
        replace(small_frontier.points[2], iteration_time_s=11.0, energy_j=3800.0),
    )
    found = compare_frontiers(small_frontier, replace(small_frontier, points=points), allow=NOTHING)
    assert [(time_s, one.old, one.new) for time_s, one in found.deadlines] == [
        (9.0, 3975.0, None),
        (9.25, 3950.0, 3960.0),
        (11.25, 3750.0, 3800.0),
    ]


def test_alternatives_that_differ_are_noted(small_plan: Plan) -> None:
    assert small_plan.predicted is not None
    other = Alternative(predicted=small_plan.predicted, stages=small_plan.stages)
    new = replace(small_plan, alternatives=(other,))
    assert (
        "alternatives differ: 0 before, 1 now; not judged"
        in compare_plans(small_plan, new, allow=NOTHING).notes
    )
    assert compare_plans(new, new, allow=NOTHING).notes == ()


def test_energies_of_another_scope_are_never_compared(small_plan: Plan) -> None:
    with pytest.raises(NotComparableError, match="of scope gpu_board and NEW's of scope module"):
        compare_plans(small_plan, replace(small_plan, scope="module"), allow=NOTHING)
