import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["hold", "watch", "restore"])
def test_no_driver_and_nothing_heavy_is_loaded_with_the_module(module: str) -> None:
    heavy = ("numpy", "pandas", "pyarrow", "torch", "rich", "typer", "pynvml")
    code = f"import sys, energyopt.applier.guard.{module}; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
