"""What the shim has to say inside a training run: on standard error, once each, and never as an exception."""

import sys
from collections.abc import Callable
from contextlib import suppress

MOST = 50
"""A run of weeks must not fill a log, whatever goes wrong."""


class Reports:
    """Things worth saying once. `passed_on` gets each as well, for the telemetry's header."""

    def __init__(self, rank: int, passed_on: Callable[[str], None] | None = None) -> None:
        self._rank = rank
        self._said: dict[str, str] = {}
        self.passed_on = passed_on

    def once(self, key: str, text: str) -> None:
        """Say something unless it was said under this key."""
        if key in self._said or len(self._said) >= MOST:
            return
        self._said[key] = text
        if sys.stderr is not None:  # where it is closed, print would take standard output
            with suppress(Exception):
                print(f"energyopt: rank {self._rank}: {text}", file=sys.stderr, flush=True)
        if self.passed_on is not None:
            with suppress(Exception):
                self.passed_on(text)

    @property
    def said(self) -> tuple[str, ...]:
        """Everything that was said."""
        return tuple(self._said.values())
