"""Plans whose clocks are equal and whose partitions differ: what is found, and what each format says of it."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from energyopt.planner.diff.compare import compare_plans
from energyopt.planner.diff.formats import RENDERERS, Format
from energyopt.planner.diff.interface import Report
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, PartitionConfig
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan

Overlap = Callable[..., Plan]
ReportOf = Callable[[Plan, Plan], Report]
NOTHING: frozenset[str] = frozenset()


def _config(plan: Plan) -> PartitionConfig:
    return plan.stages[0][0].partitions[0][1]


def test_plain_plans_have_nothing_to_compare(small_plan: Plan) -> None:
    assert compare_plans(small_plan, small_plan, allow=NOTHING).executions == ()


def test_a_plan_against_itself_changes_nothing(small_plan: Plan, overlap: Overlap) -> None:
    plan = overlap(small_plan)
    (row,) = compare_plans(plan, plan, allow=NOTHING).executions
    assert (row.changed, row.recut, row.partitions) == (0, 0, {"attention": 0})


def test_overlap_against_none(small_plan: Plan, overlap: Overlap) -> None:
    new = overlap(small_plan)
    found = compare_plans(small_plan, new, allow=NOTHING)
    assert sum(row.changed for row in found.clocks) == 0
    (row,) = found.executions
    assert (row.stage, row.chunk, row.kind) == (0, 0, OpKind.FORWARD)
    assert (row.common, row.changed, row.recut, row.partitions) == (2, 1, 1, {"attention": 1})
    assert (row.old.nanobatches, row.new.nanobatches) == ({1: 2}, {1: 1, 2: 1})
    assert row.old.configs("attention") == Counter({PLAIN: 2})
    assert row.new.configs("attention") == Counter({PLAIN: 1, _config(new): 1})


def test_other_sms_alone_are_a_change(small_plan: Plan, overlap: Overlap) -> None:
    (row,) = compare_plans(overlap(small_plan, 8), overlap(small_plan, 9), allow=NOTHING).executions
    assert (row.changed, row.recut, row.partitions) == (1, 0, {"attention": 1})


def test_the_same_counts_on_other_operations_are_a_change(small_plan: Plan, overlap: Overlap) -> None:
    """The first microbatch overlaps in one plan, the second in the other."""
    old = overlap(small_plan)
    first, second, *others = old.stages[0]
    other = replace(second, nanobatches=first.nanobatches, partitions=first.partitions)
    new = replace(old, stages=((small_plan.stages[0][0], other, *others), old.stages[1]))
    (row,) = compare_plans(old, new, allow=NOTHING).executions
    assert (row.changed, row.partitions) == (2, {"attention": 2})
    assert row.old == row.new


def test_operations_of_one_plan_alone_count_as_no_change(small_plan: Plan, overlap: Overlap) -> None:
    longer = replace(
        small_plan,
        pipeline=Pipeline(stages=2, microbatches=3),
        stages=tuple((*ops, replace(ops[0], microbatch=2)) for ops in overlap(small_plan).stages),
    )
    found = compare_plans(overlap(small_plan), longer, allow=frozenset({"microbatches"}))
    (row,) = found.executions
    assert (row.common, row.changed, row.old.ops, row.new.ops) == (2, 0, 2, 3)


@pytest.mark.parametrize("chosen", [Format.TEXT, Format.MARKDOWN, Format.GITHUB])
def test_every_format_tells_of_it(
    small_plan: Plan, overlap: Overlap, report_of: ReportOf, chosen: Format
) -> None:
    report = report_of(small_plan, overlap(small_plan))
    assert report.failures == ()
    text = RENDERERS[chosen](report)
    for words in (
        "stage 0 forward",
        "0 of 2 overlapped",
        "1 of 2 overlapped, SMs 8, before rope",
        "0 of 2",
        "1 of 2 in 2",
        "0 of 8 operations change their clock",
        "1 of 8 operations change how they are carried out",
    ):
        assert words in text


def test_text_has_a_line_for_each_change(small_plan: Plan, overlap: Overlap, report_of: ReportOf) -> None:
    lines = RENDERERS[Format.TEXT](report_of(overlap(small_plan, 8), overlap(small_plan, None))).splitlines()
    start = lines.index("partitions that change")
    assert lines[start + 1].split() == ["partitions", "of", "partition", "ops", "changed", "old", "new"]
    assert " ".join(lines[start + 2].split()) == (
        "stage 0 forward attention 2 1 1 of 2 overlapped, SMs 8, before rope (1) "
        "1 of 2 overlapped, SMs library's own (1), before rope (1)"
    )
    assert lines[start + 3] == ""


def test_github_says_as_much_as_a_message_holds(
    small_plan: Plan, overlap: Overlap, report_of: ReportOf
) -> None:
    new = overlap(small_plan)
    first, *others = new.stages[0]
    many = tuple((f"partition {number}", _config(new)) for number in range(12))
    new = replace(new, stages=((replace(first, partitions=many), *others), new.stages[1]))
    lines = RENDERERS[Format.GITHUB](report_of(small_plan, new)).splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["::notice", "::notice"]
    message = lines[1].split("%0A")
    assert len(message) == 2 + 10 + 1
    assert message[-1] == "and 3 more changes of partitions"  # 12 partitions and the nanobatches


def test_json_has_every_configuration(small_plan: Plan, overlap: Overlap, report_of: ReportOf) -> None:
    found: dict[str, Any] = json.loads(RENDERERS[Format.JSON](report_of(small_plan, overlap(small_plan))))
    assert found["executions"] == [
        {
            "stage": 0,
            "chunk": 0,
            "kind": "forward",
            "common": 2,
            "changed": 1,
            "nanobatches": {
                "changed": 1,
                "old": [{"nanobatches": 1, "ops": 2}],
                "new": [{"nanobatches": 1, "ops": 1}, {"nanobatches": 2, "ops": 1}],
            },
            "partitions": {
                "attention": {
                    "changed": 1,
                    "old": [{"execution": "sequential", "ops": 2}],
                    "new": [
                        {"execution": "sequential", "ops": 1},
                        {"execution": "overlapped", "comm_sms": 8, "comm_launch": "rope", "ops": 1},
                    ],
                }
            },
        }
    ]
    assert found["worse"] is False


def test_plans_without_prediction_compare_clocks_and_partitions(
    small_plan: Plan, overlap: Overlap, report_of: ReportOf
) -> None:
    bare = replace(small_plan, predicted=None, max_clock=None, best_single_clock=None)
    report = report_of(bare, overlap(bare))
    assert report.verdict().endswith("only clocks and partitions were compared")
    assert "partitions that change" in RENDERERS[Format.TEXT](report)
    assert report_of(bare, bare).verdict().endswith("only clocks were compared")
