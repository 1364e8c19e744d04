"""Fixtures for tests that watch other processes."""

import time
from collections.abc import Callable

import pytest

LIMIT_S = 120.0  # for a machine that is busy with other things; everything here takes well under a second


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.01)

    return wait
