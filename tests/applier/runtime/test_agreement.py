"""Two real ranks of torch.distributed over gloo, which move along the frontier together or not at all."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")

LIMIT_S = 120.0

RANK = """
import json, sys, time
import torch, torch.distributed as dist
from pathlib import Path
from energyopt.applier.runtime.agreement import agreement
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import StageTable

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
store = dist.TCPStore("127.0.0.1", int(sys.argv[3]), 2, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
TABLE = StageTable(ops=(), positions={}, clocks_mhz=((),) * 3, predicted_s=(1.0, 1.1, 1.2), safe_mhz=1)
found = {}


def reduce_gradients():
    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == 2, "the shim's collectives got mixed up with the training's"


def train(name, joined=True, iterations=9, operator=lambda iteration: 0.0, act=lambda slowdown, iteration: None):
    now = [0]
    reports = Reports(rank)
    slowdown = Slowdown(TABLE, agreement() if joined else None, lambda: operator(now[0]), reports, 1.0)
    ran = []
    for iteration in range(iterations):
        now[0] = iteration
        ran.append(slowdown.alternative())
        reduce_gradients()
        act(slowdown, iteration)
        slowdown.launch()
        reduce_gradients()  # what follows the pipeline
    found[name] = {"ran": ran, "said": list(reports.said)}


def one_rank_wishes(slowdown, iteration):
    if rank == 1 and iteration in (3, 6):
        slowdown.set({3: 1.1, 6: 1.0}[iteration])


def both_wish(slowdown, iteration):
    if iteration == 3:
        slowdown.set(1.1 if rank == 0 else 1.25)
    if iteration == 6 and rank == 1:
        slowdown.set(1.0)


train("one wishes", act=one_rank_wishes)
train("both wish", act=both_wish)
train("an operator's file", operator=lambda iteration: 1.2 if rank == 0 and iteration >= 4 else 0.0)
train("one is off", joined=rank == 0, act=one_rank_wishes)
train("and on again", act=one_rank_wishes)
(folder / f"rank{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank ran, scenario by scenario; all in one job, since torch takes its time to load."""
    folder: Path = tmp_path_factory.mktemp("agreement")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", RANK, str(rank), str(folder), str(port)],
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        ends = [one.communicate(timeout=LIMIT_S) for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0, 0], ends
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


NO_WISH = [0] * 9


@pytest.mark.parametrize(
    ("scenario", "ran"),
    [
        ("one wishes", [0, 0, 0, 0, 1, 1, 1, 0, 0]),
        ("both wish", [0, 0, 0, 0, 2, 2, 2, 1, 1]),
        ("an operator's file", [0, 0, 0, 0, 0, 2, 2, 2, 2]),
    ],
)
def test_all_ranks_move_in_the_same_iteration_the_next_one(
    ranks: list[dict[str, Any]], scenario: str, ran: list[int]
) -> None:
    """A wish of iteration 3 is everybody's from iteration 4 on."""
    for rank in ranks:
        assert rank[scenario] == {"ran": ran, "said": []}


def test_a_rank_without_the_shim_holds_up_nobody(ranks: list[dict[str, Any]]) -> None:
    """That it came to an end is the proof; the rank that has it says why nothing happens."""
    assert ranks[0]["one is off"]["ran"] == NO_WISH
    assert ranks[0]["one is off"]["said"] == [
        "not every rank runs the shim, so the ranks cannot slow down together"
    ]
    assert ranks[1]["one is off"]["ran"] == NO_WISH


def test_afterwards_the_ranks_count_their_sessions_differently_and_nothing_hangs(
    ranks: list[dict[str, Any]],
) -> None:
    for rank in ranks:
        assert rank["and on again"]["ran"] == NO_WISH
        assert rank["and on again"]["said"][0].startswith("not every rank runs the shim")


def test_the_text_of_a_rank_that_is_off(ranks: list[dict[str, Any]]) -> None:
    """It wished something, and cannot have it."""
    (said,) = ranks[1]["one is off"]["said"]
    assert "cannot agree" in said
