import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "pyarrow", "cvxpy", "torch", "rich", "typer")


@pytest.mark.parametrize("module", ["energyopt.applier", "energyopt.applier.zeus", "energyopt.schemas.plan"])
def test_training_loads_the_standard_library_alone(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
