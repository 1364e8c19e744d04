"""How long work tells that it is getting on."""

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Receives the name of the step at work and the share of the whole that is done, 0 to 1."""

    def __call__(self, step: str, share: float) -> None:
        """Called now and then, with growing shares."""


def part(progress: Progress, first: float, last: float) -> Progress:
    """Progress of a part of the work, which goes from share `first` to share `last` of the whole."""

    def tell(step: str, share: float) -> None:
        progress(step, first + share * (last - first))

    return tell


def silent(step: str, share: float) -> None:
    """Tell nobody."""
    del step, share


Warn = Callable[[str], None]
"""Receives what a user should know of the result, one line each."""


def ignore(text: str) -> None:
    """Tell nobody."""
    del text
