"""Adapters swallow their own errors, so a test must look whether there were any."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from energyopt.applier.adapters import guarding


class BrokenHooks:
    """Hooks of which each call fails."""

    def iteration(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("no iteration")

    def begin(self, *_: Any) -> NoReturn:
        raise TypeError("no beginning")

    def end(self) -> NoReturn:
        raise TypeError("no end")


@pytest.fixture(autouse=True)
def swallowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was said of errors of ours; a test that expects some empties it."""
    reports: list[Any] = []
    monkeypatch.setattr(guarding, "_REPORTS", reports)
    yield reports
    assert not reports, [one.said for one in reports]


@pytest.fixture
def broken_hooks() -> BrokenHooks:
    return BrokenHooks()
