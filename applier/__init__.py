"""Plan files on their way into training. Loads with the standard library alone.

A training loop of one's own uses `open_session`; frameworks are hooked by `energyopt run`, and their jobs find the
session with `current_session`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyopt.applier.runtime.current import current_session as current_session
    from energyopt.applier.runtime.opening import open_session as open_session

__all__ = ["adapters", "devices", "guard", "helper", "kareus", "launch", "overlap", "runtime", "zeus"]


def __getattr__(name: str) -> Any:
    """The two functions, loaded when they are asked for: the guard and every hooked process load this package."""
    if name == "open_session":
        from energyopt.applier.runtime.opening import open_session

        return open_session
    if name == "current_session":
        from energyopt.applier.runtime.current import current_session

        return current_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
