"""Putting the shim into this process: hooks go into each training framework when it is imported.

Until then nothing of the shim is loaded but the watch for that import: every Python process of a job comes by here.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING

from energyopt.applier.adapters.registry import WATCHED, adapter_for
from energyopt.applier.launch.hooks import after_import
from energyopt.applier.runtime.ranks import rank

if TYPE_CHECKING:
    from energyopt.applier.runtime.reports import Reports
    from energyopt.applier.runtime.run import Run

_OFF = "off"


class Shim:
    """The shim of this process."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self._reports: Reports | None = None

    def watch(self) -> None:
        """Hook each framework as soon as it is imported."""
        after_import(WATCHED, self._imported)

    def _imported(self, module: ModuleType) -> None:
        from energyopt.applier.runtime.reports import Reports

        if self._reports is None:
            self._reports = Reports(rank())
        try:
            self._hook(module, self._reports)
        except Exception as error:  # a framework that cannot be hooked is named, and left as it is
            self._reports.once(
                module.__name__,
                f"{_text(error, module)}; training goes on, and nothing is set or measured in it",
            )

    def _hook(self, module: ModuleType, reports: "Reports") -> None:
        from energyopt.applier.runtime.run import Run
        from energyopt.applier.runtime.settings import from_environment

        if self.run is None:
            self.run = Run(from_environment(), reports)
        adapter = adapter_for(module.__name__)
        adapter.install(module, self.run.hooks_for(adapter.name))


_started: list[Shim] = []


def start() -> None:
    """Watch for frameworks, if the environment names a plan; once per process."""
    if _started or not os.environ.get("ENERGYOPT_PLAN") or os.environ.get("ENERGYOPT_MODE") == _OFF:
        return
    _started.append(Shim())
    _started[0].watch()


def _text(error: Exception, module: ModuleType) -> str:
    from energyopt.schemas.errors import EnergyoptError

    if isinstance(error, EnergyoptError):
        return str(error)
    return f"{module.__name__} could not be hooked: {type(error).__name__}: {error}"
