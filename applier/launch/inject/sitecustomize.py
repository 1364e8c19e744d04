"""Puts the shim's import hooks into a Python process, then runs the site's own `sitecustomize` if there is one."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _run_shadowed() -> None:
    """This module hides a site's own one of the same name; it must run as if it were not there."""
    here = Path(__file__).resolve().parent
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _start() -> None:
    plan = os.environ.get("ENERGYOPT_PLAN")
    try:
        if plan:
            from energyopt.applier.launch.start import start

            start()
        elif plan is None:
            from energyopt.applier.launch.lost import warn_if_lost

            warn_if_lost()
    except Exception as error:
        if plan:
            print(f"energyopt: not loaded into {sys.executable}: {error}", file=sys.stderr)


if __name__ == "sitecustomize":
    _start()
    _run_shadowed()
