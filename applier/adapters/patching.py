"""Putting a function of ours around one of a framework's: only where all that is needed is there, and once."""

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module, metadata
from inspect import signature
from typing import Any

from energyopt.applier.adapters.interface import MissingHookError

Function = Callable[..., Any]

_HOOKED = "__energyopt_hooked__"


def framework_name(distribution: str, stating: str | None = None) -> str:
    """Name and version, such as `accelerate 1.15.0`; known even while the framework is still being imported.

    stating: a module with `__version__`, for a framework that may be a source tree.
    """
    version = "of unknown version"
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version(distribution)
    if stating is not None:
        with suppress(ImportError, AttributeError):
            version = import_module(stating).__version__
    return f"{distribution} {version}"


def require(framework: str, owner: Any, needed: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a class or module has these functions, and they the parameters that the hooks use.

    Raises:
        MissingHookError: names the framework's version and all that is missing.
    """
    missing = []
    for name, parameters in needed.items():
        function, point = getattr(owner, name, None), f"{getattr(owner, '__name__', owner)}.{name}"
        if not callable(function):
            missing.append(point)
            continue
        known = signature(function).parameters
        missing += [f"{point}({parameter}=)" for parameter in parameters if parameter not in known]
    if missing:
        raise MissingHookError(
            f"{framework} lacks {', '.join(missing)}, without which its operations cannot be told apart"
        )


def is_hooked(function: Any) -> bool:
    """Whether this is a wrapper of ours."""
    return getattr(function, _HOOKED, False) is True


def passing_for(original: Function, wrapper: Function) -> Function:
    """The wrapper, with the name and the documentation of what it replaces, and known as ours."""
    functools.update_wrapper(wrapper, original)
    setattr(wrapper, _HOOKED, True)
    return wrapper


def wrap(owner: type, name: str, around: Callable[[Function], Function]) -> None:
    """Replace the method `name` by `around(method)`, which passes for it; a second call changes nothing."""
    original = getattr(owner, name)
    if not is_hooked(original):
        setattr(owner, name, passing_for(original, around(original)))
