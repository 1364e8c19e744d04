"""Ten thousand iterations: no process grows; and what the helper takes of a core."""

import json
import os
import time
from pathlib import Path
from typing import Any

ITERATIONS = 10_000
GROWTH_KB = (512, 4608, 256)
"""Training, helper, guard, in half of them: in the half in which less was added, since a busy machine lets the
helper fall behind, and its peak rise, once. 1 kB that was kept of each iteration would be 5 MB in each half."""

LOOP = """
def size(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))

def handles(pid):
    return sorted(os.listdir(f"/proc/{pid}/fd"))

def look(pids):
    return [size(pid) for pid in pids], [handles(pid) for pid in pids]

def settle():
    time.sleep(0.6)  # the tail of readings of the last iteration
    return look((os.getpid(), session.open()._helper.pid, child_of(session.open()._helper.pid)))

def train(iterations, in_haste=False):
    for number in range(iterations):
        session.step()
        for microbatch in range(3):
            for kind in ("forward", "backward"):
                session.begin(kind, microbatch)
                session.end()
        if number % 4 == 0 and not in_haste:
            time.sleep(0.001)

train(6000, in_haste=True)  # so that all that may wait for a slow helper or disk has waited once
looks = [settle()]
for half in range(2):
    train(5_000)
    looks.append(settle())
print("sizes", json.dumps(looks), flush=True)
"""


def test_ten_thousand_iterations(trainer: Any, tmp_path: Path) -> None:
    """All to be recorded: RSS within a small bound, and the very same descriptors."""
    run = trainer.start(
        iterations=1,
        during=LOOP.strip(),
        ENERGYOPT_TELEMETRY=str(tmp_path / "tele"),
        ENERGYOPT_SAMPLE_EVERY="1",
    )
    sizes_kb, handles = zip(*json.loads(run.wait_for("sizes")), strict=True)
    run.survived()
    assert all("written too slowly" in line for line in run.said)
    assert handles[0] == handles[1] == handles[2]
    for first_kb, middle_kb, last_kb, growth_kb in zip(*sizes_kb, GROWTH_KB, strict=True):
        assert min(middle_kb - first_kb, last_kb - middle_kb) < growth_kb
    _, *lines = trainer.shard()
    numbers = [line["iteration"] for line in lines if "iteration" in line]
    assert numbers == sorted(numbers)
    assert len(numbers) > ITERATIONS / 10  # what a busy machine's helper cannot keep up with is left out
    assert trainer.as_found()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _share(run: Any, helper: int, over_s: float) -> float:
    """The helper's share of a core."""
    begun_s, used_s = time.monotonic(), _cpu_s(helper)
    time.sleep(over_s)
    assert run.process.poll() is None
    return (_cpu_s(helper) - used_s) / (time.monotonic() - begun_s)


def test_the_helper_takes_next_to_nothing_in_evaluation(trainer: Any) -> None:
    """It looks less and less often, down to 20 times a second: under 0.5 % of a core at 200 microseconds a look."""
    pause = (
        "if iteration == 2:\n"
        "    with session.outside():\n"
        "        print('idle', session.open()._helper.pid, flush=True)\n"
        "        time.sleep(600)"
    )
    run = trainer.start(iterations=3, op_s=0.02, during=pause)
    helper = int(run.wait_for("idle"))
    time.sleep(2.0)
    assert _share(run, helper, 2.0) <= 0.015
    run.process.kill()


def test_the_helper_takes_little_while_training_goes_on(trainer: Any) -> None:
    """Operations of 50 ms, each with a clock of its own, nothing recorded."""
    run = trainer.start(
        iterations=1000, op_s=0.05, during="print('helper', session.open()._helper.pid, flush=True)"
    )
    helper = int(run.wait_for("helper", times=3))
    assert _share(run, helper, 2.0) <= 0.04
    run.process.kill()
