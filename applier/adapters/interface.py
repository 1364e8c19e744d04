"""What an adapter to a training framework is: hooks around its own calls, put in when it is imported."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from energyopt.applier.runtime.facts import Describe
from energyopt.schemas.errors import EnergyoptError
from energyopt.schemas.ops import OpKind


class MissingHookError(EnergyoptError):
    """A version of a framework lacks something to hook; the text names it. Training goes on, unmeasured."""


class Hooks(Protocol):
    """What adapters call. Nothing here raises or waits; before the first iteration and when off it does nothing.

    All calls of one process come from one thread, the one that launches the work.
    """

    def iteration(
        self, describe: Describe, microbatches: int, *, training: bool = True
    ) -> AbstractContextManager[None]:
        """Around the framework's call that runs all microbatches once.

        Entering starts an iteration, which ends where the next one starts: what comes after the block (gradient
        synchronisation, optimizer) belongs to it. With `training` false (evaluation) nothing in the block is
        planned or recorded, and the clock is the safe one.
        """

    def begin(
        self,
        kind: OpKind,
        microbatch: int,
        chunk: int = 0,
        backward_chunk: int | None = None,
        backward_microbatch: int | None = None,
    ) -> None:
        """Right before an operation's work is launched; microbatch and chunk count from 0."""

    def end(self) -> None:
        """Right after its work was launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One framework.

    module: hooks go in when this module has been imported.
    install: puts them in; raises MissingHookError (nothing half done) if a version lacks one.
    """

    name: str
    module: str
    install: Callable[[ModuleType, Hooks], None]
