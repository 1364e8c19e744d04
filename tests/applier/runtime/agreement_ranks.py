"""One of two ranks that agree on slowdowns: RANK FOLDER PORT; writes what it ran, said and waited for."""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from energyopt.applier.runtime import agreement as agreements
from energyopt.applier.runtime.agreement import agreement
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.slowdown import Slowdown
from energyopt.applier.runtime.tables import StageTable

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
store = dist.TCPStore("127.0.0.1", int(sys.argv[3]), 2, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
TABLE = StageTable(ops=(), positions={}, clocks_mhz=((),) * 3, predicted_s=(1.0, 1.1, 1.2), safe_mhz=1)
LIMIT_S = 1.5
found: dict[str, Any] = {}


def reduce_gradients() -> None:
    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == 2, "the shim's collectives got mixed up with the training's"


def fork_one() -> int | str:
    child = os.fork()  # which ends as Python does, with all that is destroyed then
    if child == 0:
        sys.exit(5)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return "hangs"


def train(
    name: str,
    *,
    joined: bool = True,
    iterations: int = 9,
    operator: Callable[[int], float] = lambda _: 0.0,
    act: Callable[[Slowdown, int], None] = lambda *_: None,
    launches: Callable[[int], object] = lambda _: True,
    train: Callable[[int], None] = lambda _: reduce_gradients(),
    limit_s: float = 60.0,
) -> None:
    now = [0]
    reports = Reports(rank)
    join = (lambda: agreement(2, limit_s)) if joined else None
    slowdown = Slowdown(TABLE, join, lambda: operator(now[0]), reports, 1.0)
    ran, took = [], []
    for iteration in range(iterations):
        now[0] = iteration
        began = time.monotonic()
        ran.append(slowdown.alternative())
        took.append(time.monotonic() - began)
        train(iteration)
        act(slowdown, iteration)
        if launches(iteration):
            slowdown.launch()
        train(iteration)  # what follows the pipeline
    if name == "no backend for the CPU":  # one of torch's own for it would do its child no good either
        found[f"{name}: a forked child"] = fork_one()
    slowdown.close()
    found[name] = {"ran": ran, "said": list(reports.said)}
    found[name + ": longest waits"] = sorted(took)[:-3:-1]


def one_rank_wishes(slowdown: Slowdown, iteration: int) -> None:
    if rank == 1 and iteration in (3, 6):
        slowdown.set({3: 1.1, 6: 1.0}[iteration])


def both_wish(slowdown: Slowdown, iteration: int) -> None:
    if iteration == 3:
        slowdown.set(1.1 if rank == 0 else 1.25)
    if iteration == 6 and rank == 1:
        slowdown.set(1.0)


train("one wishes", act=one_rank_wishes)
train("both wish", act=both_wish)
train("an operator's file", operator=lambda iteration: 1.2 if rank == 0 and iteration >= 4 else 0.0)
train(
    "one does not say when it ends",
    act=one_rank_wishes,
    launches=lambda iteration: rank == 0 or iteration % 2,
)


def while_both_are_there(iteration: int) -> None:
    if iteration < 6:
        reduce_gradients()


train("one leaves", iterations=6 + 6 * rank, act=one_rank_wishes, train=while_both_are_there, limit_s=LIMIT_S)
reduce_gradients()


def one_fails(slowdown: Slowdown, iteration: int) -> None:
    one_rank_wishes(slowdown, iteration)
    if rank == 1 and iteration == 4:
        slowdown._agreement._reduce = lambda: 1 / 0


train("one fails", act=one_fails, limit_s=LIMIT_S)


def one_cannot_join(slowdown: Slowdown, iteration: int) -> None:
    if rank == 1 and iteration == 0:
        slowdown._agreement._make_group = lambda: 1 / 0


train("one cannot join", act=one_cannot_join, limit_s=LIMIT_S)
train("and all is well again", act=one_rank_wishes)
train("one is off", joined=rank == 0, act=one_rank_wishes)
train("and on again", act=one_rank_wishes)
dist.destroy_process_group()

import_module("torch.testing._internal.distributed.fake_pg")  # a backend that has no collectives on the CPU
dist.init_process_group("fake", store=dist.PrefixStore("2", store), rank=rank, world_size=2)
meetings = [0]


def meet(_iteration: int) -> None:
    meetings[0] += 1
    store.add(f"met {meetings[0]}", 1)
    while store.add(f"met {meetings[0]}", 0) < 2:
        time.sleep(0.001)


agreements._SESSIONS = iter([1000])  # one rank was off, and counts its sessions otherwise since
train("no backend for the CPU", act=one_rank_wishes, train=meet)
meet(0)
(folder / f"rank{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
