"""Who follows whom: counted along the operation, step by step."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from energyopt.planner.composition.changes import ring_of
from energyopt.planner.composition.rows import Choices
from energyopt.schemas.errors import ProfileError


def _choices(passes: dict[str, int]) -> list[Choices]:
    cost = np.ones(1)
    return [
        Choices(partition=name, passes=passes[name], configs=(), time_s=cost, energy_j=cost)
        for name in sorted(passes)
    ]


def _walked(run: Sequence[str]) -> dict[tuple[str, str], int]:
    """How often two partitions follow each other in one run of the operation, and from its end to its start."""
    steps = Counter(
        (min(one, other), max(one, other)) for one, other in zip(run, [*run[1:], run[0]], strict=True)
    )
    return {pair: times for pair, times in steps.items() if pair[0] != pair[1]}


def _steps(passes: dict[str, int], order: Sequence[str] | None) -> dict[tuple[str, str], int]:
    names = sorted(passes)
    ring = ring_of(_choices(passes), order, "forward of stage 0")
    return {(names[one], names[other]): times for (one, other), times in ring.steps.items()}


@pytest.mark.parametrize(
    ("passes", "run"),
    [
        ({"a": 4, "b": 4, "c": 4}, "abc" * 4),
        ({"a": 1, "b": 3, "c": 3}, "a" + "bc" * 3),
        ({"a": 1, "b": 1, "c": 3, "d": 3, "e": 3, "f": 1}, "ab" + "cde" * 3 + "f"),
        ({"a": 2, "b": 1}, "aab"),
        ({"a": 5, "b": 5}, "ab" * 5),
        ({"a": 3, "b": 1, "c": 3}, "aaa" + "b" + "ccc"),
        ({"a": 7}, "a" * 7),
    ],
)
def test_steps_are_those_of_the_run(passes: dict[str, int], run: str) -> None:
    order = list(dict.fromkeys(run))
    assert _steps(passes, order) == _walked(run)


def test_partitions_run_in_the_order_that_is_named() -> None:
    passes = {"attention": 2, "embedding": 1, "mlp": 2, "norm": 2}
    order = ("embedding", "norm", "attention", "rope", "mlp")
    ring = ring_of(_choices(passes), order, "forward of stage 0")
    assert [sorted(passes)[index] for index in ring.order] == ["embedding", "norm", "attention", "mlp"]
    assert _steps(passes, order) == _walked(["embedding", *["norm", "attention", "mlp"] * 2])


def test_three_need_no_order_since_all_orders_are_alike() -> None:
    passes = {"a": 4, "b": 4, "c": 4}
    assert all(_steps(passes, order) == _steps(passes, None) for order in permutations("abc"))


@pytest.mark.parametrize("passes", [dict.fromkeys("abcd", 4), {"a": 1, "b": 4, "c": 4}])
def test_more_than_three_need_one_and_so_does_what_runs_once(passes: dict[str, int]) -> None:
    with pytest.raises(
        ProfileError, match=r"in which order the \d partitions of the forward of stage 0 run, which"
    ):
        _steps(passes, None)


def test_a_partition_without_a_place_is_named() -> None:
    with pytest.raises(ProfileError, match=r"run \(c has no place in it\)"):
        _steps({"a": 2, "b": 2, "c": 2}, ("a", "b"))
