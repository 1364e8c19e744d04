"""`python -m energyopt.applier train.py ...` (or `-m module ...`): a training script with the shim in it.

Settings come from the environment: ENERGYOPT_PLAN and the others of `energyopt.applier.runtime.settings`.
"""

import runpy
import sys
from pathlib import Path

from energyopt.applier.launch.start import start

USAGE = "usage: ENERGYOPT_PLAN=plan.json python -m energyopt.applier (SCRIPT | -m MODULE) [ARGUMENTS...]"


def main() -> None:
    """Start the shim, then run the script as Python would have."""
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[is_module:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(_complain(USAGE))
    if not is_module and not Path(arguments[0]).exists():
        sys.exit(_complain(f"error: cannot open {arguments[0]}: no such file"))
    start()
    sys.argv = arguments
    if is_module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


def _complain(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
