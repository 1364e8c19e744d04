"""The session of a run without a plan: everything may be called, and nothing happens."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

_NOTHING = nullcontext()


class OffSession:
    """Stands in for `Session` where there is nothing to run."""

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

    def set_slowdown(self, slowdown: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
