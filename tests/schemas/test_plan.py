import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from energyopt.applier.zeus import plan_from_zeus
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.plan import (
    Alternative,
    Plan,
    plan_from_json,
    plan_text,
    plan_to_json,
    read_plan,
    write_plan,
)

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "schemas/json/plan.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ABSENT = object()
OP = "stages.0.ops.0"


@pytest.fixture
def full_plan(small_plan: Plan) -> Plan:
    """Every optional member filled: an alternative, energies by stage, and a call that runs both ways."""
    assert small_plan.predicted is not None
    other = Alternative(predicted=small_plan.predicted, stages=small_plan.stages)
    last = small_plan.stages[1]
    both = replace(last[1], op=OpKind.FORWARD_BACKWARD, microbatch=1, backward_chunk=0, backward_microbatch=0)
    stages = (small_plan.stages[0], (last[0], both, last[3]))
    predicted = replace(small_plan.predicted, stage_energy_j=(1875.0, 2100.0))
    return replace(small_plan, predicted=predicted, stages=stages, alternatives=(other,))


@pytest.fixture
def overlapped_plan(small_plan: Plan) -> Plan:
    """The small plan with its first operation in two nanobatches, and every kind of partition in it."""
    configs = (
        PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=15, comm_launch="rope"),
        PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="norm", sm_clock_mhz=1200),
        PartitionConfig(execution=Execution.SEQUENTIAL, comm_sms=4),
    )
    first, *others = small_plan.stages[0]
    partitions = tuple(zip(("attention", "mlp", "router"), configs, strict=True))
    overlapped = replace(first, nanobatches=2, partitions=partitions)
    return replace(small_plan, stages=((overlapped, *others), small_plan.stages[1]))


@pytest.fixture
def plans(small_plan: Plan, full_plan: Plan, overlapped_plan: Plan, tmp_path: Path) -> dict[str, Plan]:
    listing = tmp_path / "freqs.py"
    listing.write_text("[[('forward', 1410), ('backward', 1200)]]")
    return {
        "small": small_plan,
        "full": full_plan,
        "overlapped": overlapped_plan,
        "imported": plan_from_zeus(listing, device_name="A100"),
        "bare": replace(
            small_plan, profile_sha256=None, predicted=None, max_clock=None, best_single_clock=None
        ),
    }


def changed(value: Any, path: str, to: object) -> Any:
    """A copy of a JSON value in which the member at a path such as `stages.0.ops` is replaced or removed."""
    copy = deepcopy(value)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inner = copy
    for part in way:
        inner = inner[part]
    if to is ABSENT:
        del inner[last]
    else:
        inner[last] = to
    return copy


def test_round_trip_and_canonical_bytes(plans: dict[str, Plan], tmp_path: Path) -> None:
    for plan in plans.values():
        path = tmp_path / "plan.json"
        write_plan(path, plan)
        assert read_plan(path) == plan
        text = path.read_text()
        assert text == plan_text(plan)
        assert text.endswith("}\n")
        assert text == json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def test_members_are_those_of_the_design(small_plan: Plan) -> None:
    found = plan_to_json(small_plan)
    assert (found["format"], found["schema_version"]) == ("energyopt-plan", 1)
    assert found["device"] == {"name": "GPU [bold]x[/bold]", "kind": "simulated", "scope": "gpu_board"}
    assert found["baselines"]["best_single_clock"] == {
        "sm_clock_mhz": 1400, "iteration_time_s": 9.0, "energy_j": 4200.0,
    }  # fmt: skip
    assert found["stages"][0]["ops"][1] == {
        "op": "forward", "chunk": 0, "microbatch": 1, "sm_clock_mhz": 1000,
    }  # fmt: skip


def test_the_schema_is_one_and_accepts_real_plans(plans: dict[str, Plan]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for plan in plans.values():
        VALIDATOR.validate(plan_to_json(plan))


def test_members_of_partitions_may_be_null(overlapped_plan: Plan) -> None:
    value = plan_to_json(overlapped_plan)
    nothing = {"comm_sms": None, "comm_launch": None, "sm_clock_mhz": None}
    for path, to in (
        (f"{OP}.nanobatches", None),
        (f"{OP}.partitions", None),
        (f"{OP}.partitions.router", {"execution": "sequential"} | nothing),
        (f"{OP}.partitions.mlp.comm_sms", None),
    ):
        other = changed(value, path, to)
        plan_from_json(Node("p", "$", other))
        VALIDATOR.validate(other)


def test_members_that_may_be_absent(small_plan: Plan) -> None:
    value = plan_to_json(small_plan)
    for path in ("predicted", "alternatives", "tool_version", "profile.sha256", "baselines.max_clock"):
        shorter = changed(value, path, ABSENT)
        plan_from_json(Node("p", "$", shorter))
        VALIDATOR.validate(shorter)


FAULTS = [
    ("format", ABSENT, "missing field @ $.format"),
    ("format", "energyopt-frontier", "this is a file of format 'energyopt-frontier', not 'energyopt-plan'"),
    ("schema_version", ABSENT, "missing field @ $.schema_version"),
    ("schema_version", 2, "written with schema version 2, this tool reads up to 1; upgrade energyopt"),
    ("schema_version", "1", "expected an integer, found '1' @ $.schema_version"),
    ("profile", ABSENT, "missing field @ $.profile"),
    ("profile.sha256", 7, "expected text, found 7 @ $.profile.sha256"),
    ("device", ABSENT, "missing field @ $.device"),
    ("device.name", ABSENT, "missing field @ $.device.name"),
    ("device.kind", None, "expected text, found None @ $.device.kind"),
    ("pipeline", [], "expected an object @ $.pipeline"),
    ("pipeline.stages", ABSENT, "missing field @ $.pipeline.stages"),
    ("pipeline.stages", None, "expected a value, found null @ $.pipeline.stages"),
    ("pipeline.microbatches", 0, "expected at least 1, found 0 @ $.pipeline.microbatches"),
    ("pipeline.schedule", None, "expected a value, found null @ $.pipeline.schedule"),
    ("pipeline.tensor_paralel", 2, "unknown field 'tensor_paralel'; known are"),
    ("pipeline.p2p_time_s", -1.0, "expected at least 0, found -1 @ $.pipeline.p2p_time_s"),
    ("gpus", ABSENT, "missing field @ $.gpus"),
    ("gpus", 0, "expected at least 1, found 0 @ $.gpus"),
    ("gpus", True, "expected an integer, found True @ $.gpus"),
    ("predicted.iteration_time_s", ABSENT, "missing field @ $.predicted.iteration_time_s"),
    ("predicted.energy_j", "1", "expected a number, found '1' @ $.predicted.energy_j"),
    ("predicted.gap", [], "expected a number, found [] @ $.predicted.gap"),
    ("baselines", ABSENT, "missing field @ $.baselines"),
    ("baselines.max_clock.energy_j", ABSENT, "missing field @ $.baselines.max_clock.energy_j"),
    (
        "baselines.best_single_clock.sm_clock_mhz",
        0,
        "expected at least 1, found 0 @ $.baselines.best_single_clock.sm_clock_mhz",
    ),
    ("stages", ABSENT, "missing field @ $.stages"),
    ("stages", {}, "expected an array @ $.stages"),
    ("stages.1.stage", ABSENT, "missing field @ $.stages[1].stage"),
    ("stages.1.ops", ABSENT, "missing field @ $.stages[1].ops"),
    (f"{OP}.op", "recompute", "'recompute' is none of forward, backward"),
    (f"{OP}.op", "forward_backward", "missing field @ $.stages[0].ops[0].backward_chunk"),
    (f"{OP}.chunk", ABSENT, "missing field @ $.stages[0].ops[0].chunk"),
    (f"{OP}.chunk", -1, "expected at least 0, found -1 @ $.stages[0].ops[0].chunk"),
    (f"{OP}.microbatch", 0.5, "expected an integer, found 0.5 @ $.stages[0].ops[0].microbatch"),
    (f"{OP}.sm_clock_mhz", ABSENT, "missing field @ $.stages[0].ops[0].sm_clock_mhz"),
    (f"{OP}.sm_clock_mhz", "1400", "expected an integer, found '1400' @ $.stages[0].ops[0].sm_clock_mhz"),
    (f"{OP}.nanobatches", 0, "expected at least 1, found 0 @ $.stages[0].ops[0].nanobatches"),
    (f"{OP}.partitions", [], "expected an object @ $.stages[0].ops[0].partitions"),
    *(
        (f"{OP}.partitions", {"mlp": config}, f"{complaint} @ $.stages[0].ops[0].partitions.mlp")
        for config, complaint in (
            ({}, "missing field"),
            ({"execution": "soon"}, "'soon' is none of sequential, overlapped"),
            ({"execution": "overlapped"}, "missing field"),
            ({"execution": "overlapped", "comm_launch": None}, "expected text, found None"),
            ({"execution": "sequential", "comm_sms": 0}, "expected at least 1, found 0"),
            ({"execution": "sequential", "sm_clock_mhz": 0.5}, "expected an integer, found 0.5"),
        )
    ),
    ("alternatives", {}, "expected an array @ $.alternatives"),
    ("alternatives", [{"stages": []}], "missing field @ $.alternatives[0].predicted"),
]
CONTRADICTIONS = [
    ("stages.1.stage", 0, "expected stage 1 @ $.stages[1].stage"),
    ("pipeline.stages", 3, "2 stages, but the pipeline has 3 @ $.stages"),
    ("pipeline.microbatches", 1, "1, but the pipeline has 1, counted from 0 @ $.stages[0].ops[1].microbatch"),
    (f"{OP}.chunk", 1, "1, but the pipeline has 1, counted from 0 @ $.stages[0].ops[0].chunk"),
    (f"{OP}.microbatch", 1, "stands twice in its stage @ $.stages[0].ops[1]"),
]


@pytest.mark.parametrize(("path", "to", "complaint"), FAULTS + CONTRADICTIONS)
def test_a_fault_is_one_line_with_its_place(
    small_plan: Plan, tmp_path: Path, path: str, to: object, complaint: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(plan_to_json(small_plan), path, to)))
    with pytest.raises(FileFormatError) as caught:
        read_plan(file)
    text = str(caught.value)
    assert complaint in text
    assert text.startswith(f"{file}: ")
    assert "\n" not in text


@pytest.mark.parametrize(("path", "to"), [(path, to) for path, to, _ in FAULTS])
def test_the_schema_refuses_the_same_faults(small_plan: Plan, path: str, to: object) -> None:
    assert not VALIDATOR.is_valid(changed(plan_to_json(small_plan), path, to))


def test_faults_in_an_alternative(full_plan: Plan) -> None:
    value = changed(plan_to_json(full_plan), "alternatives.0.stages.1.ops.2.microbatch", 9)
    with pytest.raises(FileFormatError, match=r"@ \$.alternatives\[0\].stages\[1\].ops\[2\].microbatch"):
        plan_from_json(Node("p", "$", value))


def test_energies_by_stage_are_as_many_as_the_stages(full_plan: Plan) -> None:
    wrong = changed(plan_to_json(full_plan), "predicted.stage_energy_j", [1.0])
    with pytest.raises(FileFormatError, match="1 stages, but the pipeline has 2 @"):
        plan_from_json(Node(Path("plan.json"), "$", wrong))


def test_chunks_of_one_stage_are_different_operations(small_plan: Plan) -> None:
    stages = tuple((*ops, *(replace(op, chunk=1) for op in ops)) for ops in small_plan.stages)
    pipeline = replace(small_plan.pipeline, chunks_per_stage=2)
    plan = replace(small_plan, stages=stages, pipeline=pipeline)
    assert plan_from_json(Node("p", "$", plan_to_json(plan))) == plan


Damage = Callable[[str], str]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda text: text.replace("3975.0", "NaN"), "NaN is not a number that JSON allows"),
        (lambda text: text.replace("3975.0", "1e999"), r"expected a finite number @ \$.predicted.energy_j"),
        (lambda text: text.replace('"gpus": 2', '"gpus": 2, "gpus": 3'), "the key 'gpus' stands twice"),
        (lambda text: text[: len(text) // 2], "not JSON, or cut short"),
        (lambda _: "", "not JSON, or cut short"),
        (lambda _: "[]", r"expected an object @ \$"),
    ],
    ids=["nan", "overflow", "twice", "truncated", "empty", "array"],
)
def test_damaged_files(small_plan: Plan, tmp_path: Path, damage: Damage, complaint: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(damage(plan_text(small_plan)))
    with pytest.raises(FileFormatError, match=complaint):
        read_plan(file)


def test_numbers_that_json_lacks_are_not_written(small_plan: Plan, tmp_path: Path) -> None:
    assert small_plan.predicted is not None
    file = tmp_path / "plan.json"
    write_plan(file, small_plan)
    before = file.read_bytes()
    broken = replace(small_plan, predicted=replace(small_plan.predicted, gap=float("nan")))
    with pytest.raises(ValueError, match="JSON"):
        write_plan(file, broken)
    assert file.read_bytes() == before
