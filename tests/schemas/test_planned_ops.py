"""The operations of a plan that say how they are carried out: there and back, and what is refused."""

from typing import Any

import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.planned_ops import PlannedOp, Stages, stages_from_json, stages_to_json

JOB = Pipeline(stages=1, microbatches=2)
CONFIG = PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope")
FIRST = PlannedOp(op=OpKind.FORWARD, chunk=0, microbatch=0, sm_clock_mhz=1400)
CUT = PlannedOp(op=OpKind.FORWARD, chunk=0, microbatch=1, sm_clock_mhz=1400, nanobatches=2)
OVERLAPPED = PlannedOp(
    op=OpKind.BACKWARD,
    chunk=0,
    microbatch=0,
    sm_clock_mhz=1200,
    nanobatches=4,
    partitions=(("attention", CONFIG),),
)


def _read(value: Any) -> Stages:
    return stages_from_json(Node("plan.json", "$", value), JOB)


def test_round_trip() -> None:
    stages = ((FIRST, CUT, OVERLAPPED),)
    assert _read(stages_to_json(stages)) == stages


def test_members_stand_only_where_they_say_something() -> None:
    first, cut, overlapped = stages_to_json(((FIRST, CUT, OVERLAPPED),))[0]["ops"]
    assert first == {"op": "forward", "chunk": 0, "microbatch": 0, "sm_clock_mhz": 1400}
    assert (cut["nanobatches"], "partitions" in cut) == (2, False)
    assert overlapped["nanobatches"] == 4
    assert overlapped["partitions"] == {
        "attention": {"execution": "overlapped", "comm_sms": 8, "comm_launch": "rope"}
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"nanobatches": 0}, "expected at least 1, found 0 @ $[0].ops[0].nanobatches"),
        ({"nanobatches": "2"}, "expected an integer, found '2' @ $[0].ops[0].nanobatches"),
        ({"partitions": []}, "expected an object @ $[0].ops[0].partitions"),
        ({"partitions": "attention"}, "expected an object @ $[0].ops[0].partitions"),
        ({"partitions": {"attention": 1}}, "expected an object @ $[0].ops[0].partitions.attention"),
        (
            {"partitions": {"attention": {"execution": "soon"}}},
            "'soon' is none of sequential, overlapped @ $[0].ops[0].partitions.attention.execution",
        ),
        (
            {"partitions": {"attention": {"execution": "overlapped"}}},
            "missing field @ $[0].ops[0].partitions.attention.comm_launch",
        ),
        (
            {"partitions": {"attention": {"execution": "sequential", "comm_sms": 0}}},
            "expected at least 1, found 0 @ $[0].ops[0].partitions.attention.comm_sms",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], complaint: str) -> None:
    value = stages_to_json(((FIRST, CUT),))
    value[0]["ops"][0] |= change
    with pytest.raises(FileFormatError) as refused:
        _read(value)
    assert str(refused.value) == f"plan.json: {complaint}"
