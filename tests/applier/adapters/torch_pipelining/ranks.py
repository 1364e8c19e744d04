"""Runs a training script as the ranks of several jobs at once, with the adapter in or without it.

`ranks.py SCRIPT JOBS` with JOBS as JSON: [{"ranks": 2, "hooked": true, "out": "folder", "arguments": [...]}].
PyTorch, which takes seconds to load, is loaded once; every rank is a process forked from there. Ranks with the
adapter write what it reported to folder/recorded-N.json.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from energyopt.applier.adapters import guarding
from energyopt.applier.adapters.registry import adapter_for
from energyopt.applier.runtime.facts import Describe
from energyopt.schemas.ops import OpKind

MODULE = "torch.distributed.pipelining.schedules"
DEADLINE_S = 200


class Recorder:
    """Hooks that note what was called: `ops` in each of `iterations`; operations may not overlap or leave one."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self.begun = False
        self.within = False

    @contextmanager
    def iteration(self, describe: Describe, microbatches: int, *, training: bool = True) -> Iterator[None]:
        assert not self.within
        self.within = True
        facts = {**asdict(describe()), "microbatches_now": microbatches, "training": training}
        self.iterations.append({**facts, "ops": []})
        try:
            yield
        finally:
            self.within = False
            assert not self.begun

    def begin(
        self,
        kind: OpKind,
        microbatch: int,
        chunk: int = 0,
        backward_chunk: int | None = None,
        backward_microbatch: int | None = None,
    ) -> None:
        assert self.within and not self.begun
        self.begun = True
        op = [kind, microbatch, chunk, backward_chunk, backward_microbatch]
        self.iterations[-1]["ops"].append(op)

    def end(self) -> None:
        assert self.begun
        self.begun = False


def run_rank(script: str, job: dict[str, Any], rank: int) -> None:
    out = Path(job["out"])
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(job["ranks"])}
    recorder = Recorder()
    if job["hooked"]:
        adapter_for(MODULE).install(sys.modules[MODULE], recorder)
    sys.argv = [script, *job["arguments"], "--out", str(out), "--rendezvous", str(out / "rendezvous")]
    runpy.run_path(script, run_name="__main__")
    if job["hooked"]:
        assert not guarding._REPORTS, guarding._REPORTS[0].said
        (out / f"recorded-{rank}.json").write_text(json.dumps(recorder.iterations))


def fork(script: str, job: dict[str, Any], rank: int) -> int:
    child = os.fork()
    if child:
        return child
    failed = 1
    signal.alarm(DEADLINE_S)  # a rank waits for a failed one without end
    try:
        run_rank(script, job, rank)
        failed = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(failed)


def main(script: str, jobs: str) -> None:
    importlib.import_module(MODULE)
    children = [fork(script, job, rank) for job in json.loads(jobs) for rank in range(job["ranks"])]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(any(statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
