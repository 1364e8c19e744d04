"""`energyopt plan --sweep`: from a file to ranked layouts, and every refusal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.sweep import read_sweep

Energyopt = Callable[..., int]
JOBS = 'profiles = "profile.parquet"\ngpus = 8\nglobal_batch = 16\nstages = [1, 2, 4, 3]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated profile and a sweep of it."""
    from energyopt.cli.main import main

    found = tmp_path_factory.mktemp("sweep")
    words = ["profile", "llama-3.2-3b", "--device", "sim:h100-sxm5-80gb", "--tensor-parallel", "2"]
    shape = ["--stages", "2", "--clocks", "1200:1980:260", "--windows", "2", "--sequence-length", "4096"]
    assert main([*words, *shape, "-o", str(found / "profile.parquet")]) == 0
    (found / "jobs.toml").write_text(JOBS)
    return found


def test_a_sweep(
    energyopt: Energyopt, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """8 GPUs in replicas of 2, 4 and 8; six do not divide them."""
    target, kept = tmp_path / "sweep.json", tmp_path / "new" / "kept"
    words = ("plan", "--sweep", folder / "jobs.toml", "--effort", "quick", "--points", 6, "--workers", 1)
    assert energyopt(*words, "-o", target, "--max-slowdown", 1.2, "--keep-dir", kept) == 0
    printed, sweep = capfd.readouterr(), read_sweep(target)
    assert [(one.layout.stages, one.layout.data_parallel) for one in sweep.layouts] == [
        (1, 4),
        (2, 2),
        (4, 1),
    ]
    assert [one.reason for one in sweep.left_out] == ["8 GPUs do not divide into replicas of 6"]
    assert sweep.max_slowdown == 1.2
    for one in sweep.layouts:
        frontier = read_frontier(kept / str(one.frontier))
        assert len(one.points) == len(frontier.points) <= 6
        assert frontier.pipeline.data_parallel == one.layout.data_parallel
    assert "the best layout for every time" in printed.out
    assert "combinations that make no layout" in printed.out
    assert "least energy within" in printed.err and f"wrote {target}: 3 layouts" in printed.err

    assert energyopt("apply", kept / str(sweep.layouts[1].frontier), "-o", tmp_path / "plan.json") == 0
    capfd.readouterr()
    assert energyopt("show", target) == 0
    assert capfd.readouterr().out == printed.out
    assert energyopt("show", target, "--plot", tmp_path / "sweep.png", "--json") == 0
    shown = json.loads(capfd.readouterr().out)
    assert (tmp_path / "sweep.png").stat().st_size > 10_000
    assert energyopt(*words, "--keep-dir", kept, "--max-slowdown", 1.2, "--json") == 0
    assert json.loads(capfd.readouterr().out) == shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--stages", 4), "--sweep plans many layouts and knows no --stages: set it in"),
        (("--chunks", 4), "knows no --chunks"),
        (("--switch-tradeoff",), "knows no --switch-tradeoff"),
        (("--mixed-clocks",), "knows no --mixed-clocks"),
        (("--pipeline", "p.toml"), "knows no --pipeline"),
        (("profile.parquet",), "knows no PROFILE"),
        (("--max-slowdown", 0), "--max-slowdown needs a finite factor above 0, not 0"),
        (("--workers", 0), "--workers"),
        (("-o", "none/sweep.json"), "there is no folder"),
        (("--max-switches", -1), "--max-switches needs a number of at least 0, not -1"),
    ],
)
def test_refusals(
    energyopt: Energyopt,
    folder: Path,
    words: tuple[object, ...],
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert energyopt("plan", "--sweep", folder / "jobs.toml", *words) == 2
    printed = capfd.readouterr()
    assert expected in printed.err.replace("\n", " ")
    assert printed.out == ""


def test_inputs_are_never_written(
    energyopt: Energyopt, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("jobs.toml", "profile.parquet"):
        before = (folder / name).read_bytes()
        assert energyopt("plan", "--sweep", folder / "jobs.toml", "-o", folder / name) == 2
        assert "is an input of this command" in capfd.readouterr().err
        assert (folder / name).read_bytes() == before


@pytest.mark.parametrize("flag", ["--max-slowdown", "--workers", "--keep-dir"])
def test_flags_of_a_sweep_alone(
    energyopt: Energyopt, folder: Path, tmp_path: Path, flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", folder / "profile.parquet", "-o", tmp_path / "f.parquet", "--microbatches", 2)
    assert energyopt(*words, flag, 1) == 2
    assert f"{flag} says something with --sweep alone; add it" in capfd.readouterr().err


def test_pictures_that_a_sweep_has_not(
    energyopt: Energyopt, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "sweep.json"
    words = ("--effort", "quick", "--points", 4, "--workers", 1, "-o", target)
    assert energyopt("plan", "--sweep", folder / "jobs.toml", *words) == 0
    assert energyopt("show", target, "--timeline", "0", tmp_path / "t.png") == 2
    assert "--timeline draws a frontier's point" in capfd.readouterr().err
    assert energyopt("show", target, "--plot", target) == 2


def test_ctrl_c_ends_it_at_once(folder: Path, tmp_path: Path) -> None:
    """Workers are in the middle of layouts that take minutes; none of them is left behind."""
    jobs = tmp_path / "jobs.toml"
    profile = folder / "profile.parquet"
    jobs.write_text(f'profiles = "{profile}"\ngpus = [28, 56]\nglobal_batch = 4096\nstages = [7, 14]\n')
    target = tmp_path / "sweep.json"
    words = [sys.executable, "-m", "energyopt.cli", "plan", "--sweep", str(jobs), "-o", str(target)]
    process = subprocess.Popen(
        [*words, "--workers", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("planning layouts")
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    began_s = time.monotonic()
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert time.monotonic() - began_s < 20
    assert printed == "energyopt: interrupted; earlier output files are as they were\n"
    assert not target.exists()
    _wait_until_gone(process.pid)


def _wait_until_gone(group: int) -> None:
    for _ in range(600):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("worker processes are left")
