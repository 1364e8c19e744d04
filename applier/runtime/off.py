"""The session of a run without a plan: everything may be called, and nothing happens."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.following import Following
from energyopt.applier.overlap.ways import NOTHING_PLANNED

_NOTHING = nullcontext()


class OffSession(Following):
    """Stands in for `Session` where there is nothing to run."""

    ways = NOTHING_PLANNED

    def begin(
        self,
        kind: str,
        microbatch: int,
        chunk: int = 0,
        backward_chunk: int | None = None,
        backward_microbatch: int | None = None,
    ) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def op(self, kind: str, microbatch: int, chunk: int = 0) -> nullcontext[None]:  # noqa: ARG002
        """A block around nothing."""
        return _NOTHING

    def step(self, microbatches: int | None = None) -> None:
        """Nothing."""

    def start(self, microbatches: int | None = None) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A block around nothing."""
        yield

    def communicators(self, group: Any = None) -> Communicators:
        """The given group alone; the other ranks, if they have a plan, learn that this one does not follow it."""
        found = Communicators(group)
        found.make(self.ways)
        return found

    def set_slowdown(self, slowdown: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
