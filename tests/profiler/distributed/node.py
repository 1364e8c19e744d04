"""Ranks for the tests: `energyopt`'s own command line, with the fixed waits for a real board's readings cut short.

    python node.py ARGUMENTS...   is one rank, under torchrun
    python node.py                forks the ranks of one run for each line of standard input, a JSON object with
                                  folder, arguments and the environment of each rank; they need not import torch

Into the folder go `rankN.out`, `pids.json` and, when all have ended, `codes.json`. With WAITS_LOG set, a rank
writes there when it was blocked in a receive, and for how much of that time it used a processor.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from energyopt.applier.devices.nvml import rights
from energyopt.cli import main
from energyopt.profiler import site_lock
from energyopt.profiler.distributed.waiting import Peer
from energyopt.profiler.measurement import calibration, latency, resting

WAIT_S = 0.2


def shorten() -> None:
    """The fake boards' counters tick every few milliseconds, and anybody may set their clocks."""
    calibration.PILOT_S, calibration.LONGEST_PILOT_S = 0.4, 1.0
    resting.SHORTEST_S, resting.WARM_S = WAIT_S, 0.05
    latency.SWITCHES, latency.LOAD_S = 2, 0.1
    site_lock.LOOK_S = 0.1
    rights.may_administer = lambda *_: True


def log_waits() -> None:
    """Have peers write down their turns."""
    path = os.environ.get("WAITS_LOG")
    if path is None:
        return
    receive, serve = Peer.receive, Peer.serve

    @contextmanager
    def logged(what: str) -> Iterator[None]:
        start_s, used_s = time.monotonic(), time.thread_time()
        yield
        turn = {
            "rank": int(os.environ["RANK"]),
            "what": what,
            "from_s": start_s,
            "until_s": time.monotonic(),
            "used_s": time.thread_time() - used_s,
        }
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(turn) + "\n")

    def logged_receive(self: Peer, duration_s: float) -> None:
        with logged("receive"):
            receive(self, duration_s)

    def logged_serve(self: Peer) -> None:
        with logged("serve"):
            serve(self)

    Peer.receive, Peer.serve = logged_receive, logged_serve  # type: ignore[method-assign]


def run_rank() -> None:
    """Be a rank; ends the process."""
    shorten()
    log_waits()
    main.run()


def serve() -> None:
    """Fork runs until standard input ends."""
    import torch
    import torch.distributed

    import energyopt.profiler.benches.torch_bench
    import energyopt.profiler.distributed.together  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # the end of a forked process need not look at everything again
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        if os.fork() == 0:
            node(json.loads(line))


def node(order: dict[str, Any]) -> None:
    """Fork all ranks and wait for them."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    folder, pids = Path(order["folder"]), list[int]()
    for rank, environment in enumerate(order["environments"]):
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.environ.update(environment)
            sys.argv = ["energyopt", *order["arguments"]]
            out = os.open(folder / f"rank{rank}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            run_rank()
        pids.append(pid)
    write(folder / "pids.json", pids)
    write(folder / "codes.json", [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
    os._exit(0)


def write(path: Path, value: Any) -> None:
    """Whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(value))
    half.replace(path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_rank()
    else:
        serve()
