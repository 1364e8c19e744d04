"""Forks the ranks of a Megatron-Core job, with or without the adapter, for each line of standard input.

A line is a JSON object: `world`, `hooked`, `combined` (forward and backward), `out` (a folder) and `arguments`
of megatron_job.py. Megatron-Core is loaded once, before. Into the folder go the job's own rank-N.json and
seen-N.json: what the hooks were told, how the rank failed if it did, and what was left afterwards. A line of
standard output, the ranks' exit codes, says that all have ended.
"""

import gc
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

JOB = Path(__file__).parents[2] / "training" / "megatron_job.py"
COMBINED = Path(__file__).with_name("combined.py")


class Recorder:
    """Hooks that write down what they are told, iteration by iteration."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self.open = 0

    @contextmanager
    def iteration(self, describe: Any, microbatches: int, *, training: bool = True) -> Iterator[None]:
        facts = asdict(describe())
        self.iterations.append(
            {"microbatches": microbatches, "training": training, "facts": facts, "ops": []}
        )
        yield

    def begin(self, kind: str, *where: int) -> None:
        assert not self.open, "an operation begins inside of another"
        self.open += 1
        self.iterations[-1]["ops"].append([str(kind), *where])

    def end(self) -> None:
        self.open -= 1


def run_rank(job: Any, rank: int, order: dict[str, Any]) -> None:
    recorder, error = Recorder(), None
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(order["world"])}
    if order["hooked"]:
        hook(recorder)
    if order["combined"]:
        load(COMBINED).combine(job)
    try:
        job.main(["--out", order["out"], "--rendezvous", f"{order['out']}/meet", *order["arguments"]])
    except (RuntimeError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    if order["hooked"]:
        assert not swallowed()
    seen = {"iterations": recorder.iterations, "open": recorder.open, "error": error, "left": left()}
    Path(order["out"], f"seen-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")


def hook(recorder: Recorder) -> None:
    from energyopt.applier.adapters.megatron import ADAPTER

    module = sys.modules[ADAPTER.module]
    ADAPTER.install(module, recorder)
    ADAPTER.install(module, recorder)


def swallowed() -> list[Any]:
    """What was said of errors of the adapter's own."""
    from energyopt.applier.adapters import guarding

    return guarding._REPORTS


def left() -> dict[str, int]:
    """Tensors, and outputs that the adapter still waits for, once the job has returned."""
    gc.collect()
    things = gc.get_objects()
    places = [len(thing.places) for thing in things if type(thing).__name__ == "Steps"]
    return {"tensors": sum(type(thing).__name__ == "Tensor" for thing in things), "places": sum(places)}


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fork(job: Any, rank: int, order: dict[str, Any]) -> int:
    if pid := os.fork():
        return pid
    try:
        run_rank(job, rank, order)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    job = load(JOB)
    gc.freeze()  # or every rank's collector goes through all of Megatron-Core
    for line in sys.stdin:
        order = json.loads(line)
        pids = [fork(job, rank, order) for rank in range(order["world"])]
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


if __name__ == "__main__":
    main()
