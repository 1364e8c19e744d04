"""Real training over gloo: what the adapter reports is what our planner makes of the same schedule."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energyopt.planner.schedules.registry import SCHEDULES
from energyopt.planner.schedules.torch_csv import read_torch_csv
from energyopt.schemas.notation import format_order
from energyopt.schemas.ops import Op, Schedule

pytest.importorskip("torch")

Train = Callable[..., None]

NAMED = {"GPipe": "gpipe", "1F1B": "1f1b", "Interleaved1F1B": "interleaved-1f1b"}
LISTED = ("LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
EVALUATED = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")  # 2.13: not the others
ITERATIONS = 3


def _write_csv(folder: Path, schedule: Schedule) -> Path:
    rows = (
        format_order(order, schedule.virtual_stages).replace(" ", ",") + "\n" for order in schedule.orders
    )
    path = folder / f"{schedule.name}.csv"
    path.write_text("".join(rows))
    return path


def _job(out: Path, ranks: int, schedules: tuple[Any, ...], hooked: bool = True) -> dict[str, Any]:
    arguments = ["--schedule", *map(str, schedules), "--iterations", str(ITERATIONS), "--microbatches", "8"]
    return {
        "ranks": ranks,
        "hooked": hooked,
        "out": str(out),
        "arguments": [*arguments, "--evaluate-every", "2"],
    }


def _expected(name: str, out: Path, ranks: int) -> Schedule:
    if name in NAMED:
        chunks = 2 if name == "Interleaved1F1B" else 1
        return SCHEDULES[NAMED[name]](ranks, 8, chunks)
    return read_torch_csv(out / name / "schedule.csv")


def _reported(op: Op) -> list[Any]:
    return [op.kind, op.microbatch, op.chunk, op.backward_chunk, op.backward_microbatch]


def _check_rank(iterations: list[dict[str, Any]], expected: Schedule, rank: int, name: str) -> None:
    training = [one for one in iterations if one["training"]]
    assert len(training) == ITERATIONS
    for one in training:
        assert one["ops"] == [_reported(op) for op in expected.orders[rank]], (name, rank)
        assert (one["stage"], one["stages"]) == (rank, expected.stages)
        assert one["chunks"] == len(expected.virtual_stages[rank])
        assert one["microbatches"] == one["microbatches_now"] == expected.microbatches
        assert one["schedule"] == NAMED.get(name)
        if name not in ("GPipe", "1F1B"):
            placed = [
                {"kind": op.kind, "chunk": op.chunk, "microbatch": op.microbatch}
                for op in expected.orders[rank]
            ]
            assert one["order"] == placed


def _check_reports(out: Path, ranks: int, names: list[str]) -> None:
    for rank in range(ranks):
        iterations = json.loads((out / f"recorded-{rank}.json").read_text())
        for name in names:
            count = ITERATIONS + (name in EVALUATED or name == "zb-h1")
            evaluated = [len(one["ops"]) for one in iterations[:count] if not one["training"]]
            assert evaluated == [0] * (count - ITERATIONS)
            _check_rank(iterations[:count], _expected(name, out, ranks), rank, name)
            del iterations[:count]
        assert iterations == []


def test_two_ranks_train_bit_for_bit_as_without(tmp_path: Path, train: Train) -> None:
    ours = _write_csv(tmp_path, SCHEDULES["zb-h1"](2, 8, 1))
    schedules = (*NAMED, *LISTED, ours)
    hooked, plain = tmp_path / "hooked", tmp_path / "plain"
    train(_job(hooked, 2, schedules), _job(plain, 2, schedules, hooked=False))
    written = sorted(path.relative_to(plain) for path in plain.glob("*/*"))
    assert len(written) == 8 * 2 + 6  # of each schedule what two ranks computed, and six orders
    for path in written:
        assert (hooked / path).read_bytes() == (plain / path).read_bytes(), path
    computed = json.loads((plain / "1F1B" / "rank-1.json").read_text())
    assert [len(losses) for losses in computed["losses"]] == [8] * ITERATIONS
    _check_reports(hooked, 2, [*NAMED, *LISTED, "zb-h1"])


def test_four_ranks_run_the_planners_order(tmp_path: Path, train: Train) -> None:
    ours = _write_csv(tmp_path, SCHEDULES["zb-h1"](4, 8, 1))
    out = tmp_path / "out"
    train(_job(out, 4, ("1F1B", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV", ours)))
    _check_reports(out, 4, ["1F1B", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV", "zb-h1"])
    assert read_torch_csv(out / "zb-h1" / "schedule.csv").orders == SCHEDULES["zb-h1"](4, 8, 1).orders
