"""`python -m energyopt.applier train.py ...` (or `-m module ...`): a training script with the shim in it.

Settings come from the environment: ENERGYOPT_PLAN and the others of `energyopt.applier.runtime.settings`.
"""

import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from pkgutil import get_importer
from types import ModuleType

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
    try:
        _run_module(arguments[0]) if is_module else _run_script(arguments[0])
    except Exception as error:
        _show(error)
        sys.exit(1)


def _run_module(name: str) -> None:
    _look_first_in(Path.cwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(name: str) -> None:
    path = Path(name).absolute()
    if get_importer(str(path)) is not None:  # a folder or an archive with a __main__.py
        _look_first_in(path)
        runpy.run_path(name, run_name="__main__")
        return
    _look_first_in(path.resolve().parent)
    loader = SourceFileLoader("__main__", str(path))
    module = ModuleType("__main__")
    module.__file__, module.__loader__ = str(path), loader
    module.__dict__["__builtins__"] = __builtins__
    code = loader.source_to_code(path.read_bytes(), str(path))
    sys.modules["__main__"] = module  # it stays there: what ends after the script may still want it
    exec(code, module.__dict__)


def _look_first_in(folder: Path) -> None:
    """The first entry is this module's own, unless Python was told to have none (-P)."""
    if not sys.flags.safe_path:
        sys.path[0] = str(folder)


def _show(error: Exception) -> None:
    """As Python does, from the script's own first line on."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _is_ours(filename: str) -> bool:
    return filename == __file__ or filename.startswith("<frozen ")


def _complain(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
