"""Putting the shim into this process: hooks go into each training framework when it is imported."""

import os
from types import ModuleType

from energyopt.applier.adapters.registry import WATCHED, adapter_for
from energyopt.applier.launch.hooks import after_import
from energyopt.applier.runtime.reports import Reports
from energyopt.applier.runtime.run import Run
from energyopt.applier.runtime.settings import Mode, from_environment
from energyopt.schemas.errors import EnergyoptError

_started: list[Run] = []


def start() -> Run | None:
    """Hook the frameworks, as the environment says; never raises, and does nothing the second time."""
    if _started:
        return _started[0]
    reports = Reports(_rank())
    try:
        settings = from_environment()
    except EnergyoptError as error:
        reports.once("settings", f"{error}; training goes on without a plan")
        return None
    if settings.mode is Mode.OFF or settings.plan is None:
        return None
    run = Run(settings, reports)
    _started.append(run)
    after_import(WATCHED, lambda module: _install(module, run, reports))
    return run


def _install(module: ModuleType, run: Run, reports: Reports) -> None:
    """A framework that cannot be hooked is named, and left as it is."""
    try:
        adapter = adapter_for(module.__name__)
        adapter.install(module, run.hooks_for(adapter.name))
    except EnergyoptError as error:
        reports.once(module.__name__, f"{error}; training goes on without a plan")
    except Exception as error:
        reports.once(
            module.__name__,
            f"{module.__name__} could not be hooked: {type(error).__name__}: {error}; "
            "training goes on without a plan",
        )


def _rank() -> int:
    text = os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "0"
    return int(text) if text.isascii() and text.isdigit() else 0
