"""`energyopt run`: the command takes over, with the shim in each of its Python processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from energyopt.cli import main as entry
from energyopt.cli.run import environment_for
from energyopt.schemas.pipeline import Pipeline
from energyopt.schemas.plan import Plan, write_plan
from energyopt.schemas.telemetry import read_telemetry

JOBS = Path(__file__).resolve().parents[1] / "applier" / "training"
LOOP = """
import sys, time
from energyopt.applier import open_session
session = open_session()
for iteration in range(int(sys.argv[1])):
    session.step()
    for kind, microbatch in (("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)):
        with session.op(kind, microbatch):
            time.sleep(0.03)
print("trained", flush=True)
if "--wait" in sys.argv:
    time.sleep(60)
sys.exit(7 if "--fail" in sys.argv else 0)
"""


@pytest.fixture
def job(tmp_path: Path, small_plan: Plan, fake_nvml: Any) -> Callable[..., list[str]]:
    """The words of a run of stage 0 of the small plan (1400, 1000, 1000, 1400 MHz) on a fake board."""
    fake_nvml.boards[0].set_clocks((1400, 1200, 1000))
    name = fake_nvml.boards[0].name
    write_plan(tmp_path / "plan.json", replace(small_plan, device_name=name))
    (tmp_path / "loop.py").write_text(LOOP)

    def words(*options: str, script: tuple[str, ...] = ("3",)) -> list[str]:
        plan, loop = str(tmp_path / "plan.json"), str(tmp_path / "loop.py")
        return [sys.executable, "-m", "energyopt", "run", plan, *options, "--", sys.executable, loop, *script]

    return words


def start(words: list[str], fake: Any, folder: Path) -> "subprocess.Popen[str]":
    """As the first of two ranks: the plan has two stages."""
    environment = fake.env | {"ENERGYOPT_STATE_DIR": str(folder / "state"), "RANK": "0", "WORLD_SIZE": "2"}
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )


def set_mhz(fake: Any) -> list[int]:
    return [call.arguments[0] for call in fake.calls() if call.call == "set_locked_clocks"]


def test_the_plan_is_run_and_the_exit_code_is_the_commands(
    job: Callable[..., list[str]], fake_nvml: Any, tmp_path: Path
) -> None:
    process = start(
        job("--telemetry", "tele", "--sample-every", "1", script=("3", "--fail")), fake_nvml, tmp_path
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7
    assert out == "trained\n"
    assert err.count("energyopt: ") == 1  # what is run, and nothing to complain about
    assert set_mhz(fake_nvml) == [1400, 1000, 1400, 1000, 1400, 1000, 1400]
    assert fake_nvml.boards[0].lock_mhz is None
    run = tmp_path / "run.parquet"
    assert entry.main(["merge", str(tmp_path / "tele"), "-o", str(run)]) == 0
    telemetry = read_telemetry(run)
    assert telemetry.iterations["iteration"].to_pylist() == [0, 1]  # nobody knows when the last one ended
    assert telemetry.ops.num_rows == 8
    assert all(0.03 <= time_s < 1.0 for time_s in telemetry.ops["time_s"].to_pylist())
    assert set(telemetry.ops["sm_clock_mhz"].to_pylist()) == {1400, 1000}


def test_observing_sets_nothing(job: Callable[..., list[str]], fake_nvml: Any, tmp_path: Path) -> None:
    process = start(job("--mode", "observe", "--telemetry", "tele"), fake_nvml, tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert fake_nvml.calls() == []
    header, first = (tmp_path / "tele" / "rank0.jsonl").read_text().splitlines()[:2]
    assert json.loads(header)["applied"] is False
    assert json.loads(first)["alternative"] is None
    assert {op[3] for op in json.loads(first)["ops"]} == {None}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_gives_the_board_back(
    number: signal.Signals, job: Callable[..., list[str]], fake_nvml: Any, tmp_path: Path
) -> None:
    process = start(job(script=("2", "--wait")), fake_nvml, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "trained\n"
    assert fake_nvml.boards[0].lock_mhz == (1400, 1400)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number  # the command's own, which is this very process
    deadline = time.monotonic() + 30
    while fake_nvml.boards[0].lock_mhz is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fake_nvml.boards[0].lock_mhz is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.write_text(path.read_text()[:200]), "not JSON, or cut short"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_a_bad_plan_is_refused_before_anything_starts(
    change: Callable[[Path], object],
    text: str,
    job: Callable[..., list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = job()
    change(tmp_path / "plan.json")
    assert entry.main(words[3:]) == 2
    assert text in capsys.readouterr().err


def test_bad_requests(
    job: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert entry.main([*job()[3:-3], "no-such-program"]) == 2
    assert "cannot run no-such-program" in capsys.readouterr().err
    assert entry.main(job("--slowdown", "1.1")[3:]) == 2
    assert "has no alternatives" in capsys.readouterr().err
    assert entry.main(["run", str(tmp_path / "plan.json")]) == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--slowdown", "inf"), "--slowdown is inf; it takes a number of at least 1"),
        (("--slowdown", "nan"), "--slowdown"),
        (("--switch-latency-s", "inf"), "--switch-latency-s is inf"),
        (("--device", "sim:a100-sxm4-80gb"), "--device is 'sim:a100-sxm4-80gb', a simulated GPU"),
        (("--site-lock-mhz", "1200"), "--site-lock-mhz '1200' is neither"),
    ],
)
def test_options_that_make_no_sense(
    job: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert entry.main(job(*options)[3:]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("echo trained\n", "Exec format error; a script needs a first line such as #!/bin/sh"),
        ("#!/no/such/interpreter\n", "No such file or directory"),
    ],
)
def test_a_command_that_cannot_be_started(
    job: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str,
    said: str,
) -> None:
    script = tmp_path / "train.sh"
    script.write_text(content)
    script.chmod(0o755)
    assert entry.main([*job()[3:-3], str(script)]) == 2
    assert f"cannot run {script}: {said}" in capsys.readouterr().err


def test_the_environment_of_an_outer_run_is_not_kept() -> None:
    outer = {"ENERGYOPT_SLOWDOWN_FILE": "/old", "PYTHONPATH": "/mine", "HOME": "/home"}
    found = environment_for({"ENERGYOPT_PLAN": "/plan"}, outer)
    assert "ENERGYOPT_SLOWDOWN_FILE" not in found
    assert found["PYTHONPATH"].endswith(f"inject{os.pathsep}/mine")
    assert (found["HOME"], found["ENERGYOPT_PLAN"]) == ("/home", "/plan")


def test_torchrun(tmp_path: Path, small_plan: Plan, make_fake_nvml: Callable[..., Any]) -> None:
    """The whole way with a launcher between: torchrun, two ranks, PyTorch's own pipeline, a board each."""
    fake = make_fake_nvml(2)
    pipeline = Pipeline(stages=2, microbatches=2)
    plan = replace(small_plan, device_name=fake.boards[0].name, pipeline=pipeline)
    for board in fake.boards:
        board.set_clocks((1400, 1000))
    write_plan(tmp_path / "plan.json", plan)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(JOBS / "torch_job.py"), "--out", str(tmp_path), "--op-time-ms", "40", "--microbatches", "2"]
    words = [
        sys.executable,
        "-m",
        "energyopt",
        "run",
        "plan.json",
        "--telemetry",
        "tele",
        "--sample-every",
        "1",
    ]
    process = start([*words, "--", sys.executable, *torchrun, *script], fake, tmp_path)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    assert "training goes on" not in err
    assert "left alone" not in err
    asked = {board.uuid: [] for board in fake.boards}  # type: dict[str, list[int]]
    for call in fake.calls():
        if call.call == "set_locked_clocks":
            asked[call.uuid].append(call.arguments[0])
    assert asked[fake.boards[0].uuid] == [1400, 1000] * 3 + [1400]
    assert asked[fake.boards[1].uuid] == [1400]
    assert sorted(path.name for path in (tmp_path / "tele").iterdir()) == ["rank0.jsonl", "rank1.jsonl"]
