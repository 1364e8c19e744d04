"""Scripts that are run as plain Python and with the shim beside it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LIMIT_S = 60.0

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """`python("-m", "energyopt.applier", "script.py", ENERGYOPT_PLAN="x")`, in the test's folder."""

    def run(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("ENERGYOPT_", "PYTHON"))
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=kept | env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run
