"""Real Megatron-Core and real torch.distributed.pipelining, trained with a plan: same losses, the plan's clocks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.applier.devices.interface import Throttle
from energyopt.schemas.plan import Plan

ITERATIONS = 3
COMMON = ("--iterations", str(ITERATIONS), "--op-time-ms", "50")

Clocks = Callable[[Plan, int, int], list[int]]
Asked = Callable[[Plan, int, list[dict[str, Any]]], list[int | None]]


def check(
    plan: Plan, plain: list[dict[str, Any]], ranks: list[Any], clocks_of: Clocks, asked_in: Asked
) -> None:
    for stage, (before, rank) in enumerate(zip(plain, ranks, strict=True)):
        assert rank.result == before  # losses and weights, bit for bit
        assert rank.said == ""
        assert rank.set_mhz == clocks_of(plan, stage, ITERATIONS)
        assert rank.given_back
        told = asked_in(plan, stage, rank.shard)
        assert told == rank.set_mhz[: len(told)]
        check_ops(plan, stage, rank.shard)


def check_ops(plan: Plan, stage: int, shard: list[dict[str, Any]]) -> None:
    """Every operation ran once an iteration, in the plan's order, and the board was seen at the clock asked for.

    Nobody knows when the last iteration ended, so that it is not there.
    """
    iterations = [line for line in shard if "iteration" in line]
    assert [line["iteration"] for line in iterations] == list(range(ITERATIONS - 1))
    seen, ahead = 0, 0
    for line in iterations:
        ops = sorted(line["ops"], key=lambda op: op[1])
        assert [op[0] for op in ops] == list(range(len(plan.stages[stage])))
        for position, _, _, asked, achieved, _ in ops:
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
def test_megatron_1f1b(
    stages: int, bench: Any, named_plan: Callable[..., Plan], clocks_of: Clocks, asked_in: Asked
) -> None:
    plan = named_plan("1f1b", stages, 4)
    arguments = (*COMMON, "--microbatches", "4")
    plain = bench.plain("megatron", stages, *arguments)
    check(plan, plain, bench.planned_in_time("megatron", plan, *arguments), clocks_of, asked_in)


@pytest.mark.parametrize("stages", [2, 4])
def test_megatron_interleaved(
    stages: int, bench: Any, named_plan: Callable[..., Plan], clocks_of: Clocks, asked_in: Asked
) -> None:
    plan = named_plan("interleaved-1f1b", stages, 4, 2)
    arguments = (*COMMON, "--microbatches", "4", "--chunks", "2")
    plain = bench.plain("megatron", stages, *arguments)
    check(plan, plain, bench.planned_in_time("megatron", plan, *arguments), clocks_of, asked_in)


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
    asked_in: Asked,
) -> None:
    plan = named_plan(name, 2, 4, chunks)
    arguments = (*COMMON, "--microbatches", "4", "--schedule", torch_name)
    plain = bench.plain("torch", 2, *arguments)
    check(plan, plain, bench.planned_in_time("torch", plan, *arguments), clocks_of, asked_in)


@pytest.mark.parametrize("torch_name", ["InterleavedZeroBubble", "ZBVZeroBubble"])
def test_torch_zero_bubble(
    torch_name: str,
    bench: Any,
    tmp_path: Path,
    csv_plan: Callable[[Path], Plan],
    clocks_of: Clocks,
    asked_in: Asked,
) -> None:
    arguments = (*COMMON, "--microbatches", "4", "--schedule", torch_name)
    plain = bench.plain("torch", 2, *arguments)
    (printed,) = (tmp_path / "plain").glob("**/schedule.csv")
    plan = csv_plan(printed)
    check(plan, plain, bench.planned_in_time("torch", plan, *arguments), clocks_of, asked_in)


def test_where_nothing_is_set_nothing_was_asked_for(bench: Any, named_plan: Callable[..., Plan]) -> None:
    plan = named_plan("1f1b", 2, 2)
    arguments = ("--iterations", "3", "--op-time-ms", "5", "--microbatches", "2", "--schedule", "1F1B")
    for rank in bench.planned("torch", plan, *arguments, MODE="observe"):
        lines = [line for line in rank.shard if "iteration" in line]
        assert rank.set_mhz == []
        assert [line["alternative"] for line in lines] == [None, None]
        assert {op[3] for line in lines for op in line["ops"]} == {None}


def test_nothing_was_asked_for_during_the_first_look(
    bench: Any, tmp_path: Path, named_plan: Callable[..., Plan]
) -> None:
    """The boards say that they are idle until two iterations are over: their clocks tell nothing of a lock.

    Some operations of the iteration in which they first speak may have been asked for nothing.
    """
    plan, shard = named_plan("1f1b", 2, 2), tmp_path / "tele" / "rank0.jsonl"
    for board in bench.fake.boards:
        board.throttle = Throttle.GPU_IDLE
    arguments = ("--iterations", "10", "--op-time-ms", "30", "--microbatches", "2", "--schedule", "1F1B")
    bench.jobs.start("torch", 2, tmp_path / "job", arguments, bench.environment(plan))
    deadline = time.monotonic() + 60
    while (not shard.exists() or shard.read_text().count('"iteration"') < 2) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert bench.fake.calls() == []
    for board in bench.fake.boards:
        board.throttle = 0
    assert bench.jobs.codes() == [0, 0], (tmp_path / "job" / "rank-0.err").read_text()
    for rank in (bench.rank(tmp_path / "job", number) for number in (0, 1)):
        lines = [line for line in rank.shard if "iteration" in line]
        silent = [line for line in lines if line["alternative"] is None]
        assert 2 <= len(silent) < len(lines)
        assert silent == lines[: len(silent)]
        assert {op[3] for line in silent[:2] for op in line["ops"]} == {None}
        assert all(op[3] is not None for line in lines[len(silent) :] for op in line["ops"])
        assert sum(line["clock_sets"] for line in silent[:2]) == 0
