"""Files as tables and as JSON; expected values follow from the job in tests/conftest.py."""

import json
from dataclasses import replace

from energyopt.planner.selection import by_name, to_plan
from energyopt.planner.tables import Table
from energyopt.planner.views.choice import choice_table, choice_to_json
from energyopt.planner.views.frontier import frontier_tables
from energyopt.planner.views.pipeline import pipeline_tables
from energyopt.planner.views.plan import plan_tables
from energyopt.planner.views.profile import profile_tables
from energyopt.planner.views.summary import frontier_to_json, profile_to_json
from energyopt.schemas.files import canonical_json
from energyopt.schemas.frontier import Frontier
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import Alternative, Plan
from energyopt.schemas.profile import Profile


def _row(table: Table, name: str) -> dict[str, str]:
    found = next(row for row in table.rows if row[0] == name)
    return dict(zip(table.columns, found, strict=True))


def test_the_points_of_a_frontier(small_frontier: Frontier) -> None:
    """Point 1: 9.25 / 9 = 1.02778, 3950 / 4200 = 0.94048, gap 20 / 3930, static 1850 / 3950."""
    points = frontier_tables(small_frontier)[-1]
    assert points.title == "points (2 GPUs)"
    assert _row(points, "1") == {
        "point": "1",
        "time_s": "9.2500",
        "energy_j": "3950.0",
        "bound_j": "3930.0",
        "gap": "0.51 %",
        "time vs max clock": "+2.78 %",
        "energy vs max clock": "-5.95 %",
        "energy vs best single clock": "-5.95 %",
        "static share": "46.84 %",
        "average power_w": "427.0",
        "peak power_w": "-",
        "clock switches": "3",
        "names": "",
    }
    assert _row(points, "2")["energy vs best single clock"] == "+0.00 %"  # 1000 MHz is as fast, and as cheap


def test_a_single_clock_that_is_as_fast_up_to_noise_counts(small_frontier: Frontier) -> None:
    last = replace(small_frontier.points[-1], iteration_time_s=11.25 * (1 - 1e-12))
    frontier = replace(small_frontier, points=(*small_frontier.points[:-1], last))
    assert _row(frontier_tables(frontier)[-1], "2")["energy vs best single clock"] == "+0.00 %"


def test_where_no_single_clock_is_as_fast(small_frontier: Frontier) -> None:
    frontier = replace(small_frontier, single_clocks=small_frontier.single_clocks[:1])
    assert _row(frontier_tables(frontier)[-1], "0")["energy vs best single clock"] == "-"
    assert len(frontier_tables(frontier)[1].rows) == 1


def test_an_empty_frontier_can_be_shown(small_frontier: Frontier) -> None:
    assert frontier_tables(replace(small_frontier, points=()))[-1].rows == ()


def test_a_plan(small_plan: Plan) -> None:
    header, totals, clocks = plan_tables(small_plan)
    assert _row(header, "GPUs that totals cover")["value"] == "2"
    assert totals.title == "energy and time (2 GPUs)"
    assert _row(totals, "plan")["gap"] == "0.38 %"  # 15 / 3960
    assert _row(totals, "best single clock") == {
        "iteration": "best single clock",
        "sm_clock_mhz": "1400",
        "time_s": "9.0000",
        "energy_j": "4200.0",
        "bound_j": "-",
        "gap": "-",
        "plan's time": "+0.00 %",
        "plan's energy": "-5.36 %",  # 3975 / 4200
    }
    assert clocks.rows[0] == ("backward of stage 0", "2", "1000", "1200.0", "1400")


def test_a_plan_with_absent_parts_and_alternatives(small_plan: Plan) -> None:
    assert small_plan.predicted is not None
    other = Alternative(predicted=small_plan.predicted, stages=small_plan.stages)
    plan = replace(small_plan, predicted=None, max_clock=None, alternatives=(other,))
    totals = plan_tables(plan)[1]
    assert _row(totals, "plan, not predicted")["energy_j"] == "-"
    assert _row(totals, "max clock")["energy_j"] == "-"
    assert _row(totals, "best single clock")["plan's energy"] == "-"
    assert _row(totals, "alternative 0")["energy_j"] == "3975.0"


def _overlapped(plan: Plan, clock: int | None = None) -> Plan:
    """Both forwards of stage 0 in two nanobatches, the second also with overlap in its attention."""
    config = PartitionConfig(
        execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope", sm_clock_mhz=clock
    )
    first, second, *others = plan.stages[0]
    cut = replace(first, nanobatches=2)
    overlapped = replace(second, nanobatches=2, partitions=(("attention", config),))
    return replace(plan, stages=((cut, overlapped, *others), plan.stages[1]))


def test_the_partitions_of_a_plan(small_plan: Plan) -> None:
    partitions = plan_tables(_overlapped(small_plan))[-1]
    assert partitions.title == "partitions, and how many operations run them so"
    assert [dict(zip(partitions.columns, row, strict=True)) for row in partitions.rows] == [
        {
            "partitions of": "forward of stage 0",
            "in nanobatches": "2 of 2 in 2",
            "partition": "attention",
            "overlapped": "1 of 2",
            "SMs": "8",
            "launched before": "rope (1)",
        }
    ]


def test_clocks_of_a_partitions_own_are_shown(small_plan: Plan) -> None:
    (row,) = plan_tables(_overlapped(small_plan, 900))[-1].rows
    assert row[-1] == "900 (1)"


def test_nanobatches_without_overlap_are_shown(small_plan: Plan) -> None:
    stages = tuple(tuple(replace(op, nanobatches=2) for op in ops) for ops in small_plan.stages)
    rows = plan_tables(replace(small_plan, stages=stages))[-1].rows
    assert len(rows) == 4
    assert rows[0] == ("backward of stage 0", "2 of 2 in 2", "-", "-", "-", "-")


def test_what_a_chosen_point_asks_of_training(small_frontier: Frontier) -> None:
    choice = by_name(small_frontier, "0")
    plan = to_plan(small_frontier, choice)
    assert choice_table(small_frontier, choice, plan).title.endswith("1f1b, 2 GPUs")
    found = choice_to_json(small_frontier, choice, plan)
    assert (found["ops"], found["ops_in_nanobatches"], found["partitions"]) == (8, 0, [])
    overlapped = _overlapped(plan)
    title = choice_table(small_frontier, choice, overlapped).title
    assert title.endswith("2 GPUs; operations in nanobatches: 2 of 8; planned partitions: 1")
    found = choice_to_json(small_frontier, choice, overlapped)
    assert (found["ops_in_nanobatches"], found["partitions"]) == (2, ["attention"])


def test_a_profile(small_profile: Profile) -> None:
    provenance, levels, costs, invalid = profile_tables(small_profile)
    assert _row(provenance, "driver")["value"] == "570.1"
    assert _row(provenance, "workload model")["value"] == "tiny"
    assert _row(provenance, "sha256")["value"] == small_profile.sha256()
    assert levels.rows == (("op", "4", "1"),)
    assert costs.title == "cost per occurrence (1 GPU)"
    forward = next(row for row in costs.rows if row[3] == "forward")
    assert forward[6:] == ("2", "2", "1000", "1400", "1", "1.25", "300", "250")
    assert invalid.rows == (("op", "all", "forward", "1200", "clock not held"),)


def test_stages_of_a_profile_stand_in_numeric_order(small_profile: Profile) -> None:
    rows = tuple(replace(row, stage=stage) for stage in (10, 2) for row in small_profile.rows[:1])
    costs = profile_tables(replace(small_profile, rows=rows))[2]
    assert [row[1] for row in costs.rows] == ["2", "10"]


def test_a_profile_without_invalid_rows_has_no_such_table(small_profile: Profile) -> None:
    assert len(profile_tables(replace(small_profile, rows=small_profile.rows[:-1]))) == 3


def test_a_pipeline() -> None:
    (table,) = pipeline_tables({"stages": 4})
    assert _row(table, "stages") == {"setting": "stages", "value": "4", "from": "this file"}
    assert _row(table, "schedule") == {"setting": "schedule", "value": "1f1b", "from": "default"}
    assert _row(table, "microbatches") == {"setting": "microbatches", "value": "-", "from": "not given"}


def test_a_frontier_as_json_holds_everything(small_frontier: Frontier) -> None:
    found = json.loads(canonical_json(frontier_to_json(small_frontier)))
    assert found["gpus"] == 2
    assert found["schedule"]["orders"] == ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
    assert [point["energy_j"] for point in found["points"]] == [3975.0, 3950.0, 3750.0]
    assert found["points"][1]["choices"] == [0, 1, 1, 0, 1, 0, 0, 0]
    assert found["options"][0] == {
        "stage": 0,
        "chunk": 0,
        "op": "backward",
        "sm_clock_mhz": [1400, 1000],
        "time_s": [2.0, 2.5],
        "energy_j": [600.0, 500.0],
    }
    assert len(found["baselines"]["single_clocks"]) == 2


def test_a_profile_as_json_holds_everything(small_profile: Profile) -> None:
    found = json.loads(canonical_json(profile_to_json(small_profile)))
    assert found["metadata"]["workload"] == {"model": "tiny", "microbatch_size": 4}
    assert len(found["rows"]) == 5
    assert found["rows"][-1]["invalid"] == "clock not held"
