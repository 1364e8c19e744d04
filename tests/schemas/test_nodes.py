"""Typed access to parsed values: how large an integer may be, and that a complaint about it stays short."""

from typing import Any

import pytest

from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node

HUGE = 16**5000  # more digits than Python writes out


def test_integers_of_64_bits() -> None:
    for value in (2**63 - 1, 1 - 2**63):
        assert Node("f", "$", value).integer() == value


@pytest.mark.parametrize("value", [2**63, -(2**63), 10**30, HUGE], ids=["2^63", "-2^63", "10^30", "huge"])
def test_larger_integers_are_refused(value: int) -> None:
    with pytest.raises(
        FileFormatError, match="expected an integer of at most 9223372036854775807"
    ) as refused:
        Node("f", "$", value).integer()
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("value", [HUGE, ["x"] * 5000], ids=["integer", "list"])
def test_a_complaint_about_a_huge_value_is_short(value: Any) -> None:
    with pytest.raises(FileFormatError) as refused:
        Node("f", "$", value).text()
    assert len(str(refused.value)) < 100
