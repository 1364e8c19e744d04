"""Running commands as a user does, in their own process, and timing them with start-up included."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.registry import UnavailableError

ENERGYOPT = Path(sys.executable).with_name("energyopt")


def wall_s(command: list[str]) -> float:
    """Wall time of one run.

    Raises:
        UnavailableError: the command failed; the text is the last line that it wrote to stderr.
    """
    began_s = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began_s
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        raise UnavailableError(f"{Path(command[0]).name} {command[1]} exited with {done.returncode}: {last}")
    return took_s


def median_wall_s(command: list[str], runs: int) -> float:
    """Median wall time of several runs."""
    return median(wall_s(command) for _ in range(runs))


def plan_command(
    profile: Path, frontier: Path, stages: int, microbatches: int, points: int, effort: str = "normal"
) -> list[str]:
    """`energyopt plan` of a 1F1B job."""
    sizes = {"stages": stages, "microbatches": microbatches, "points": points}
    flags = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    return [
        str(ENERGYOPT),
        "plan",
        str(profile),
        "-o",
        str(frontier),
        "--schedule",
        "1f1b",
        "--effort",
        effort,
        *flags,
    ]
