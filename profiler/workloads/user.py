"""Workloads that a user's own function describes, named as `module:function`."""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from energyopt.profiler.workloads.check import check_workload
from energyopt.profiler.workloads.interface import Workload
from energyopt.profiler.workloads.simple import simple_workload
from energyopt.schemas.errors import EnergyoptError, WorkloadError


def user_workload(spec: str) -> Workload:
    """Call `module:function`, which returns a Workload or an iterable of (kind, name, callable).

    Modules of the current folder can be named, as with `python -m`.

    Raises:
        WorkloadError: no such module or function, it fails, or returns something else.
    """
    module_name, _, name = spec.partition(":")
    if (folder := os.getcwd()) not in sys.path:  # noqa: PTH109 - sys.path holds text
        sys.path.insert(0, folder)
    module = _module(spec, module_name)
    function = _function(spec, module, name)
    try:
        result = function()
        if isinstance(result, Workload):
            return _stamped(check_workload(spec, result), module)
        if isinstance(result, Iterable) and not isinstance(result, str | bytes):
            return _stamped(simple_workload(spec, result), module)
    except EnergyoptError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's code raises is his to read, in one line
        raise WorkloadError(f"{spec}: {describe(error)}") from error
    raise WorkloadError(
        f"{spec} returned {type(result).__name__}; return a Workload or tuples (kind, name, callable)"
    )


def _stamped(workload: Workload, module: Any) -> Workload:
    """The workload with a digest of the module's source: a run of one version is not resumed with another."""
    file = getattr(module, "__file__", None)
    source = Path(file).read_bytes() if file else b""
    digest = hashlib.sha256(source).hexdigest()[:16]
    return replace(workload, settings=dict(workload.settings) | {"code_sha256": digest})


def describe(error: BaseException) -> str:
    """An exception of somebody else's code in one line: its type and the first line of its text."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _module(spec: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a script that parses its own arguments exits
        raise WorkloadError(f"{spec}: cannot import {name!r}: {describe(error)}") from error


def _function(spec: str, module: Any, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        own = sorted(
            key for key, value in vars(module).items() if callable(value) and not key.startswith("_")
        )
        raise WorkloadError(f"{spec}: no function {name!r}; the module has {', '.join(own) or 'none'}")
    return found
