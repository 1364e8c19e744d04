import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "pyarrow", "cvxpy", "torch", "rich", "typer")


LIGHT = (
    "energyopt.applier",
    "energyopt.applier.adapters.registry",
    "energyopt.applier.helper.loop",
    "energyopt.applier.kareus.export",
    "energyopt.applier.launch.start",
    "energyopt.applier.runtime.opening",
    "energyopt.applier.runtime.run",
    "energyopt.applier.zeus",
    "energyopt.schemas.plan",
)


@pytest.mark.parametrize("module", LIGHT)
def test_training_loads_the_standard_library_alone(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("module", ["energyopt.applier.runtime.opening", "energyopt.applier.launch.start"])
def test_no_driver_is_loaded_into_training(module: str) -> None:
    """Boards are opened by the helper's process."""
    code = f"import sys, {module}; print('pynvml' in sys.modules, 'energyopt.applier.devices.nvml' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False False"
