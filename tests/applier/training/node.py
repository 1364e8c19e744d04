"""Forks the ranks of a training job, with or without the shim, for each line of standard input.

A line is a JSON object: `job` (megatron or torch), `world`, `out` (a folder), `arguments` of the job's script, and
`environment`. Where that names a plan, every rank starts the shim as `energyopt run` would. The frameworks are
loaded once, before. What a rank says goes to rank-N.err. A line of standard output says that all have ended.
"""

import atexit
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_rank(rank: int, order: dict[str, Any]) -> None:
    out = Path(order["out"])
    errors = os.open(out / f"rank-{rank}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(order["world"])}
    os.environ |= order["environment"]
    from energyopt.applier.launch.start import start

    start()
    job = load(f"{order['job']}_job")
    job.main(["--out", order["out"], "--rendezvous", str(out / "meet"), *order["arguments"]])


def fork(rank: int, order: dict[str, Any]) -> int:
    if pid := os.fork():
        return pid
    os.setsid()
    try:
        run_rank(rank, order)
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    load("megatron_job")
    load("torch_job")
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pids = [fork(rank, order) for rank in range(order["world"])]
        Path(order["out"], "pids.json").write_text(json.dumps(pids))
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


if __name__ == "__main__":
    main()
