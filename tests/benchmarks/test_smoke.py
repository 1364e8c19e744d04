"""Every benchmark is built once at tiny size, so that none rots; what it measures there means nothing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    "startup",
    "hook_cost",
    "profile_sweep",
    "error_bars",
    "schedules",
    "composition",
    "partitions",
    "real_profiles",
    "measured_runs",
    "measured_savings",
    "switch_limits",
    "scale",
    "scale_limits",
    "scale_others",
    "sweep",
    "search",
    "against_lowtime",
    "exact",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_each_benchmark_runs_at_tiny_size() -> None:
    done = run("--smoke")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0][2:] for line in done.stdout.splitlines() if line.startswith("# ")] == NAMES


def test_the_list_names_every_benchmark() -> None:
    done = run("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    done = run("real_profile")
    assert done.returncode == 2
    assert done.stderr == f"benchmarks: no benchmark 'real_profile'; known are {', '.join(NAMES)}\n"


def test_absent_data_is_one_clear_line(tmp_path: Path) -> None:
    done = run("real_profiles", "--data", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        "benchmarks: real_profiles: no gpt3-175b.a100-sxm-80gb.csv in "
        f"{tmp_path / 'stage-profiles'}; say with --data where the real data is\n"
    )
