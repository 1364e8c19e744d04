"""Putting a function of ours around one of a framework's: only where all that is needed is there, and once."""

import functools
from collections.abc import Callable, Mapping
from importlib import metadata
from inspect import signature
from typing import Any

from energyopt.applier.adapters.interface import MissingHookError

Function = Callable[..., Any]

_HOOKED = "__energyopt_hooked__"


@functools.cache
def framework_name(distribution: str) -> str:
    """Name and version, such as `accelerate 1.15.0`; known even while the framework is still being imported."""
    try:
        return f"{distribution} {metadata.version(distribution)}"
    except metadata.PackageNotFoundError:
        return f"{distribution} of unknown version"


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


def wrap(owner: type, name: str, around: Callable[[Function], Function]) -> None:
    """Replace the method `name` by `around(method)`, which passes for it; a second call changes nothing."""
    original = getattr(owner, name)
    if getattr(original, _HOOKED, False):
        return
    wrapper = functools.wraps(original)(around(original))
    setattr(wrapper, _HOOKED, True)
    setattr(owner, name, wrapper)
