"""lowtime in its own virtual environment: its dependencies are none of ours."""

import subprocess
import sys
from pathlib import Path

from benchmarks.registry import UnavailableError

REQUIREMENT = "lowtime==0.3.0"
FOLDER = ".venv-lowtime"
_READY = ".installed"


def lowtime_python(root: Path) -> str:
    """The interpreter that has lowtime; made once, from wheels only, since it contains Rust.

    Raises:
        UnavailableError: it cannot be installed here.
    """
    folder = root / FOLDER
    python = folder / "bin" / "python"
    if not (folder / _READY).exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([str(python), "-m", "pip", "install", *quiet, "--only-binary", "lowtime", REQUIREMENT])
        _run([str(python), "-c", "import lowtime.solver"])
        (folder / _READY).touch()
    return str(python)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UnavailableError(f"{REQUIREMENT} does not install on Python {version}: {last}")
