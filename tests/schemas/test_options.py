"""Operating points in a frontier's metadata: there and back, as earlier files have them, and what is refused."""

from typing import Any

import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.options import Option, options_from_json, options_to_json
from energyopt.schemas.partitions import Execution, PartitionConfig

KEY = OpKey(1, 2, OpKind.BACKWARD)
PLAIN = Option(sm_clock_mhz=1400, time_s=1.0, energy_j=300.0)
CUT = Option(sm_clock_mhz=1400, time_s=1.1, energy_j=290.0, nanobatches=2)
OVERLAPPED = Option(
    sm_clock_mhz=1200,
    time_s=0.9,
    energy_j=240.0,
    nanobatches=2,
    partitions=(
        ("attention", PartitionConfig(execution=Execution.OVERLAPPED, comm_sms=8, comm_launch="rope")),
        ("mlp", PartitionConfig(execution=Execution.SEQUENTIAL, sm_clock_mhz=900)),
    ),
)


def _read(value: Any) -> tuple[OpKey, tuple[Option, ...]]:
    return options_from_json(Node("f.parquet", "$", value))


@pytest.mark.parametrize("options", [(PLAIN,), (PLAIN, CUT), (OVERLAPPED, PLAIN, CUT)])
def test_round_trip(options: tuple[Option, ...]) -> None:
    assert _read(options_to_json(KEY, options)) == (KEY, options)


def test_plain_options_are_written_as_before_there_were_partitions() -> None:
    assert options_to_json(KEY, (PLAIN,)) == {
        "stage": 1,
        "chunk": 2,
        "op": "backward",
        "sm_clock_mhz": [1400],
        "time_s": [1.0],
        "energy_j": [300.0],
    }


def test_which_options_are_plain() -> None:
    assert [one.is_plain for one in (PLAIN, CUT, OVERLAPPED)] == [True, False, False]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"op": "sideways"}, "'sideways' is none of forward"),
        ({"stage": -1}, "expected at least 0, found -1 @ $.stage"),
        ({"sm_clock_mhz": [1400, 0]}, "expected at least 1, found 0 @ $.sm_clock_mhz[1]"),
        ({"time_s": [1.0, -0.1]}, "expected at least 0, found -0.1 @ $.time_s[1]"),
        ({"energy_j": [1.0]}, "its lists differ in length, or are empty @ $"),
        ({"executions": []}, "its lists differ in length, or are empty @ $"),
        ({"executions": [{"nanobatches": 1, "partitions": {}}]}, "its lists differ in length"),
        ({"executions": {}}, "expected an array @ $.executions"),
        ({"executions": [{"partitions": {}}] * 2}, "missing field @ $.executions[0].nanobatches"),
        ({"executions": [{"nanobatches": 0, "partitions": {}}] * 2}, "expected at least 1, found 0"),
        ({"executions": [{"nanobatches": 1}] * 2}, "missing field @ $.executions[0].partitions"),
        ({"executions": [{"nanobatches": 1, "partitions": []}] * 2}, "expected an object @ $.executions[0]"),
        (
            {"executions": [{"nanobatches": 1, "partitions": {"mlp": {"execution": "overlapped"}}}] * 2},
            "missing field @ $.executions[0].partitions.mlp.comm_launch",
        ),
    ],
)
def test_damage_is_named(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        _read(options_to_json(KEY, (PLAIN, OVERLAPPED)) | change)
    assert complaint in str(refused.value)


def test_no_options_at_all_are_refused() -> None:
    empty: dict[str, object] = {"sm_clock_mhz": [], "time_s": [], "energy_j": []}
    with pytest.raises(FileFormatError, match="differ in length, or are empty"):
        _read(options_to_json(KEY, (PLAIN,)) | empty)
