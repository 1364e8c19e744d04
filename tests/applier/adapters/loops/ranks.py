"""Runs a training script as the ranks of several jobs, one job after the other, with the adapters in or without.

`ranks.py SCRIPT MODULES JOBS`, JOBS as JSON: [{"ranks": 2, "hooked": true, "out": "folder", "arguments": [...]}].
The script and the watched MODULES, which take seconds to load, are loaded once; every rank is a process forked from
there. Ranks with the adapters write what they were told to folder/recorded-N.json; with "hooked" as "broken" every
hook fails.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from energyopt.applier.adapters import guarding
from energyopt.applier.adapters.registry import adapter_for
from energyopt.applier.runtime.facts import Describe
from energyopt.schemas.ops import OpKind

LETTERS = {OpKind.FORWARD: "F", OpKind.BACKWARD: "B", OpKind.OPTIMIZER: "O", OpKind.GRAD_SYNC: "S"}


class Recorder:
    """Hooks that note what was called as words: F0 begins a forward, c1F0 one of chunk 1, `.` ends it.

    `(4` and `)` are around the block of an iteration of four microbatches, `{` and `}` around an evaluation.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.facts: list[dict[str, Any]] = []

    @contextmanager
    def iteration(self, describe: Describe, microbatches: int, *, training: bool = True) -> Iterator[None]:
        if not self.facts:
            self.facts.append(asdict(describe()))
        self.words.append(f"({microbatches}" if training else "{")
        try:
            yield
        finally:
            self.words.append(")" if training else "}")

    def begin(self, kind: OpKind, microbatch: int, chunk: int = 0) -> None:
        self.words.append((f"c{chunk}" if chunk else "") + f"{LETTERS[kind]}{microbatch}")

    def end(self) -> None:
        self.words.append(".")


class BrokenHooks:
    """Hooks of which each call fails."""

    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"no {name}")


def run_rank(script: ModuleType, modules: list[str], job: dict[str, Any], rank: int) -> None:
    if job["ranks"] > 1:  # as torchrun says it; the ranks meet at a file
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["ranks"]))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    recorder = BrokenHooks() if job["hooked"] == "broken" else Recorder()
    if job["hooked"]:
        for _ in range(2):  # the second time must change nothing
            for module in modules:
                adapter_for(module).install(sys.modules[module], recorder)
    out = Path(job["out"])
    script.main(["--out", str(out), "--rendezvous", str(out / "meet"), *job["arguments"]])
    if job["hooked"] is True:
        assert not guarding._REPORTS, guarding._REPORTS[0].said
        told = {"words": " ".join(recorder.words), "facts": recorder.facts[0]}
        (out / f"recorded-{rank}.json").write_text(json.dumps(told), encoding="utf-8")


def fork_rank(script: ModuleType, modules: list[str], job: dict[str, Any], rank: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run_rank(script, modules, job, rank)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(script: Path, modules: list[str], jobs: list[dict[str, Any]]) -> None:
    sys.path.insert(0, str(script.parent))
    loaded = importlib.import_module(script.stem)
    for module in [*modules, "torch._dynamo"]:  # the latter is loaded by the first optimizer, in seconds too
        importlib.import_module(module)
    gc.freeze()
    for job in jobs:
        children = [fork_rank(loaded, modules, job, rank) for rank in range(job["ranks"])]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if any(codes):
            sys.exit(f"the job in {job['out']} failed: exit codes {codes}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
