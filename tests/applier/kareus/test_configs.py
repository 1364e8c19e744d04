import pytest

from energyopt.applier.kareus.configs import parse_config
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node
from energyopt.schemas.partitions import Execution, PartitionConfig

OVERLAPPED, SEQUENTIAL = Execution.OVERLAPPED, Execution.SEQUENTIAL


@pytest.mark.parametrize(
    ("text", "execution", "launch", "end"),
    [
        ("4-8-24-1024", OVERLAPPED, "4", "8"),
        ("0-0-24-1024", OVERLAPPED, "0", "0"),
        ("04-8-24-1024", OVERLAPPED, "4", "8"),
        ("rope_0-linear_1-24-1024", OVERLAPPED, "rope_0", "linear_1"),
        ("norm_0-none-24-1024", OVERLAPPED, "norm_0", None),
        ("none-none-24-1024", SEQUENTIAL, None, None),
        ("-1--1-24-1024", SEQUENTIAL, None, None),
    ],
)
def test_a_setting(text: str, execution: Execution, launch: str | None, end: str | None) -> None:
    found = parse_config(Node("f.py", "$", text))
    assert (found.sms, found.block, found.end) == (24, 1024, end)
    assert found.partition_config == PartitionConfig(execution=execution, comm_sms=24, comm_launch=launch)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("4-8-24", "'4-8-24' is no setting such as '4-8-24-1024'"),
        ("4-8-24-1024-1", "is no setting"),
        ("", "'' is no setting"),
        ("4-8-24-", "is no setting"),
        ("rope 0-none-24-1024", "is no setting"),
        ("4-8-x-1024", "is no setting"),
        ("-2-8-24-1024", "is no setting"),
        ("4-8-²4-1024", "is no setting"),
        ("7up-8-24-1024", "'7up' is no kernel's index or name"),
        ("4-8-0-1024", "0 SMs; expected 1 to 512"),
        ("4-8-1024-24", r"1024 SMs; expected 1 to 512 \(are SMs and block size exchanged\?\)"),
        ("4-8-24-0", "a block of 0 threads; expected 1 to 1024"),
        ("4-8-24-2048", "a block of 2048 threads"),
        ("8-4-24-1024", "the window ends at kernel 4, before its start at 8"),
        (24, "expected text, found 24"),
        (["4"], "expected text"),
    ],
)
def test_what_is_none(value: object, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        parse_config(Node("f.py", "$[0][1]", value))
    assert str(caught.value).startswith("f.py: ")
    assert str(caught.value).endswith("@ $[0][1]")
