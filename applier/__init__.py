"""Plan files on their way into training. Loads with the standard library alone.

A training loop of one's own uses `open_session`; frameworks are hooked by `energyopt run`.
"""

from energyopt.applier.runtime.opening import open_session as open_session

__all__ = ["adapters", "devices", "guard", "helper", "launch", "runtime", "zeus"]
