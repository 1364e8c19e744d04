"""Descriptors 0 to 2 in a job that has closed some of them: others write into those numbers, whatever they are."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def standard_taken() -> Iterator[None]:
    """Nothing that is opened in the block gets one of these numbers; afterwards they are as before."""
    taken = []
    try:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            taken.append(descriptor)
        os.close(descriptor)
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def children_get(descriptor: int) -> bool:
    """Whether a child has this descriptor without being given it."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False
