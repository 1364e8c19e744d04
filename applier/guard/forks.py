"""Descriptors that belong to this process alone: a forked worker lets go of them at once.

Else a data loader that outlives its trainer would hold the trainer's locks, and keep its pipe to the guard open.
"""

import os

_OPEN: set[int] = set()


def keep(descriptor: int) -> int:
    """Have forked children close this descriptor; gives it back."""
    _OPEN.add(descriptor)
    return descriptor


def close(descriptor: int) -> None:
    """Close it here; it may have been closed before."""
    if descriptor in _OPEN:
        _OPEN.discard(descriptor)
        os.close(descriptor)


def _let_go() -> None:
    for descriptor in tuple(_OPEN):
        close(descriptor)


os.register_at_fork(after_in_child=_let_go)
