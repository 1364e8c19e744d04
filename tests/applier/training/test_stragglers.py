"""An operator slows a real training job down: all ranks move along the frontier in the same iteration."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from energyopt.schemas.plan import Alternative, Plan, Prediction

ITERATIONS = 60
ARGUMENTS = (
    "--iterations",
    str(ITERATIONS),
    "--microbatches",
    "2",
    "--op-time-ms",
    "15",
    "--schedule",
    "1F1B",
)
SLOW_MHZ = 810


def with_alternative(plan: Plan) -> Plan:
    """The plan takes 1 s on paper; its alternative takes 1.2 s, with everything at one low clock."""
    slow = tuple(tuple(replace(op, sm_clock_mhz=SLOW_MHZ) for op in ops) for ops in plan.stages)
    return replace(
        plan,
        predicted=Prediction(iteration_time_s=1.0, energy_j=100.0),
        alternatives=(Alternative(predicted=Prediction(iteration_time_s=1.2, energy_j=90.0), stages=slow),),
    )


def recorded(path: Path) -> list[int]:
    """The alternative that each recorded iteration of a rank has run, as far as they are written."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line["alternative"] for line in lines if "iteration" in line]


def await_that(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert happened()


def test_an_operators_file_moves_all_ranks_together(
    bench: Any, tmp_path: Path, named_plan: Callable[..., Plan]
) -> None:
    plan = with_alternative(named_plan("1f1b", 2, 2))
    wish = tmp_path / "slowdown"
    shards = [tmp_path / "tele" / f"rank{rank}.jsonl" for rank in (0, 1)]
    environment = bench.environment(plan, SLOWDOWN_FILE=str(wish))
    bench.jobs.start("torch", 2, tmp_path / "job", ARGUMENTS, environment)
    await_that(lambda: len(recorded(shards[0])) >= 3)
    wish.write_text("1.25\n")
    await_that(lambda: 1 in recorded(shards[0]))
    wish.unlink()
    assert bench.jobs.codes() == [0, 0], (tmp_path / "job" / "rank-0.err").read_text()
    first, second = (recorded(path) for path in shards)
    assert first == second
    assert len(first) == ITERATIONS - 1, "nobody knows when the last one ended"
    changes = [(a, b) for a, b in pairwise(first) if a != b]
    assert changes in ([(0, 1)], [(0, 1), (1, 0)])  # the job may end before the file's end is seen
    for rank, path in enumerate(shards):
        asked: list[int | None] = []
        right: list[bool] = []
        for line in map(json.loads, path.read_text().splitlines()):
            if "iteration" in line:
                own = [op.sm_clock_mhz for op in plan.stages[rank]]
                expected = own if line["alternative"] == 0 else [SLOW_MHZ] * len(own)
                asked += [op[3] for op in line["ops"]]
                right += [op[3] == clock for op, clock in zip(line["ops"], expected, strict=True)]
        told = iter(bench.rank(tmp_path / "job", rank).set_mhz)
        assert all(clock in told for clock, _ in groupby(asked)), "in the order of the board's own log"
        assert right.count(True) >= 0.8 * len(right), "a busy machine lets some be overtaken"


def test_a_wish_from_the_start(bench: Any, named_plan: Callable[..., Plan]) -> None:
    """One rank's wish is every rank's; it cannot count before all ranks are known to be there."""
    plan = with_alternative(named_plan("1f1b", 2, 2))
    arguments = ("--iterations", "6", *ARGUMENTS[2:])
    ranks = bench.planned("torch", plan, *arguments, SLOWDOWN="1.2")
    alternatives = [[line["alternative"] for line in rank.shard if "iteration" in line] for rank in ranks]
    assert alternatives == [[0, 0, 1, 1, 1]] * 2
    assert all(rank.said == "" for rank in ranks)
