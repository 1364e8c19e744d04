"""How partitions run, in JSON: there and back, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node
from energyopt.schemas.partitions import (
    PLAIN,
    Execution,
    PartitionConfig,
    named,
    partitions_from_json,
    partitions_to_json,
)

COUNTS = st.none() | st.integers(1, 132)
OVERLAPPED = st.builds(
    PartitionConfig,
    execution=st.just(Execution.OVERLAPPED),
    comm_sms=COUNTS,
    comm_launch=st.text(min_size=1),
    sm_clock_mhz=COUNTS,
)
SEQUENTIAL = st.builds(
    PartitionConfig, execution=st.just(Execution.SEQUENTIAL), comm_sms=COUNTS, sm_clock_mhz=COUNTS
)


def _node(value: Any) -> Node:
    return Node("plan.json", "$", value)


@given(st.dictionaries(st.text(min_size=1), OVERLAPPED | SEQUENTIAL, max_size=4))
def test_what_is_written_is_read(configs: dict[str, PartitionConfig]) -> None:
    partitions = named(list(configs.items()))
    assert partitions_from_json(_node(partitions_to_json(partitions))) == partitions


def test_what_is_plain_has_no_name() -> None:
    other = PartitionConfig(execution=Execution.SEQUENTIAL, comm_sms=4)
    assert named([("mlp", other), ("norm", PLAIN), ("attention", other)]) == (
        ("attention", other),
        ("mlp", other),
    )


def test_members_that_are_absent_or_null_are_none() -> None:
    assert partitions_from_json(None) == ()
    assert partitions_from_json(_node({})) == ()
    values = {"execution": "sequential", "comm_sms": None, "comm_launch": None, "sm_clock_mhz": None}
    for config in (values, {"execution": "sequential"}):
        assert partitions_from_json(_node({"mlp": config})) == (("mlp", PLAIN),)
    assert partitions_to_json((("mlp", PLAIN),)) == {"mlp": {"execution": "sequential"}}


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"execution": "later"}, "'later' is none of sequential, overlapped @ $.mlp.execution"),
        ({}, "missing field @ $.mlp.execution"),
        ({"execution": None}, "expected text, found None @ $.mlp.execution"),
        ({"execution": "overlapped"}, "missing field @ $.mlp.comm_launch"),
        (
            {"execution": "overlapped", "comm_launch": None},
            "expected text, found None @ $.mlp.comm_launch",
        ),
        ({"execution": "overlapped", "comm_launch": 4}, "expected text, found 4 @ $.mlp.comm_launch"),
        (
            {"execution": "overlapped", "comm_launch": ""},
            "expected the name of a kernel, found '' @ $.mlp.comm_launch",
        ),
        (
            {"execution": "sequential", "comm_launch": "rope"},
            "a sequential partition launches its communication before no kernel @ $.mlp.comm_launch",
        ),
        (
            {"execution": "sequential", "com_sms": 4},
            "unknown field 'com_sms'; known are comm_launch, comm_sms, execution, sm_clock_mhz @ $.mlp",
        ),
        ({"execution": "sequential", "comm_sms": 0}, "expected at least 1, found 0 @ $.mlp.comm_sms"),
        ({"execution": "sequential", "comm_sms": 2.0}, "expected an integer, found 2.0 @ $.mlp.comm_sms"),
        ({"execution": "sequential", "sm_clock_mhz": 0}, "expected at least 1, found 0 @ $.mlp.sm_clock_mhz"),
        ("overlapped", "expected an object @ $.mlp"),
    ],
)
def test_what_cannot_be_is_refused(config: object, complaint: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        partitions_from_json(_node({"mlp": config}))
    assert str(refused.value) == f"plan.json: {complaint}"


def test_partitions_are_an_object() -> None:
    with pytest.raises(FileFormatError, match="expected an object @ "):
        partitions_from_json(_node([{"execution": "sequential"}]))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (PLAIN, "sequential"),
        (
            PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=12, comm_launch="rope"),
            "overlapped, 12 SMs, before rope",
        ),
        (
            PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="rope", sm_clock_mhz=900),
            "overlapped, before rope, 900 MHz",
        ),
    ],
)
def test_in_words(config: PartitionConfig, words: str) -> None:
    assert str(config) == words
