"""Real Megatron-Core and real torch.distributed.pipelining, trained with a plan: same losses, the plan's clocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.schemas.plan import Plan

ITERATIONS = 3
COMMON = ("--iterations", str(ITERATIONS), "--op-time-ms", "50")

Clocks = Callable[[Plan, int, int], list[int]]


def check(plan: Plan, plain: list[dict[str, Any]], ranks: list[Any], clocks_of: Clocks) -> None:
    for stage, (before, rank) in enumerate(zip(plain, ranks, strict=True)):
        assert rank.result == before  # losses and weights, bit for bit
        assert rank.said == ""
        assert rank.set_mhz == clocks_of(plan, stage, ITERATIONS)
        assert rank.given_back
        check_ops(plan, stage, rank.shard)


def check_ops(plan: Plan, stage: int, shard: list[dict[str, Any]]) -> None:
    """Every operation ran once an iteration, in the plan's order, and the board was seen at its clock in it."""
    iterations = [line for line in shard if "iteration" in line]
    assert [line["iteration"] for line in iterations] == list(range(ITERATIONS))
    seen, ahead = 0, 0
    for line in iterations:
        ops = sorted(line["ops"], key=lambda op: op[1])
        assert [op[0] for op in ops] == list(range(len(plan.stages[stage])))
        for position, _, _, asked, achieved, _ in ops:
            assert asked == plan.stages[stage][position].sm_clock_mhz
            following = plan.stages[stage][position + 1 : position + 2]
            assert achieved in (asked, None, *(op.sm_clock_mhz for op in following))
            seen += achieved is not None  # None: no look at the board fell into it
            ahead += achieved not in (
                asked,
                None,
            )  # the only look fell between the next clock's set and its op
    assert seen >= 0.5 * len(iterations) * len(plan.stages[stage])
    assert ahead <= 0.1 * seen


@pytest.mark.parametrize("stages", [2, 4])
def test_megatron_1f1b(stages: int, bench: Any, named_plan: Callable[..., Plan], clocks_of: Clocks) -> None:
    plan = named_plan("1f1b", stages, 4)
    arguments = (*COMMON, "--microbatches", "4")
    plain = bench.plain("megatron", stages, *arguments)
    check(plan, plain, bench.planned("megatron", plan, *arguments), clocks_of)


@pytest.mark.parametrize("stages", [2, 4])
def test_megatron_interleaved(
    stages: int, bench: Any, named_plan: Callable[..., Plan], clocks_of: Clocks
) -> None:
    plan = named_plan("interleaved-1f1b", stages, 4, 2)
    arguments = (*COMMON, "--microbatches", "4", "--chunks", "2")
    plain = bench.plain("megatron", stages, *arguments)
    check(plan, plain, bench.planned("megatron", plan, *arguments), clocks_of)


@pytest.mark.parametrize(
    ("name", "torch_name", "chunks"),
    [("gpipe", "GPipe", 1), ("1f1b", "1F1B", 1), ("interleaved-1f1b", "Interleaved1F1B", 2)],
)
def test_torch_by_name(
    name: str,
    torch_name: str,
    chunks: int,
    bench: Any,
    named_plan: Callable[..., Plan],
    clocks_of: Clocks,
) -> None:
    plan = named_plan(name, 2, 4, chunks)
    arguments = (*COMMON, "--microbatches", "4", "--schedule", torch_name)
    plain = bench.plain("torch", 2, *arguments)
    check(plan, plain, bench.planned("torch", plan, *arguments), clocks_of)


@pytest.mark.parametrize("torch_name", ["InterleavedZeroBubble", "ZBVZeroBubble"])
def test_torch_zero_bubble(
    torch_name: str, bench: Any, tmp_path: Path, csv_plan: Callable[[Path], Plan], clocks_of: Clocks
) -> None:
    arguments = (*COMMON, "--microbatches", "4", "--schedule", torch_name)
    plain = bench.plain("torch", 2, *arguments)
    (printed,) = (tmp_path / "plain").glob("**/schedule.csv")
    plan = csv_plan(printed)
    check(plan, plain, bench.planned("torch", plan, *arguments), clocks_of)
