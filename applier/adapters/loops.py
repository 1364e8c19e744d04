"""Training loops without a pipeline: forward and backward of one microbatch after the other, then the optimizer.

Such frameworks stand on one another (a Trainer on Accelerate, that on DeepSpeed), so the same work passes several
hooks. They all tell the one `LOOP` of the process, which reports each operation once and numbers it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from energyopt.applier.adapters.guarding import QUIETLY, quiet_block
from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.adapters.patching import Function
from energyopt.applier.runtime.facts import Describe, RunFacts
from energyopt.applier.runtime.ranks import device_ordinal, rank_and_world_size
from energyopt.schemas.ops import OpKind


class Loop:
    """What the training loop of this process is at.

    An optimizer step ends an iteration; as long as none was seen, the number of microbatches that the framework
    gave does. A microbatch is a forward (or several) and what runs backward after it. Some jobs accumulate over
    more microbatches than their framework knows: then the last iteration's number is expected of the next.
    `forward`, `backward` and `optimizer` give a token for `end`, 0 where the work belongs to an operation that is
    under way. Nothing here raises.
    """

    def __init__(self) -> None:
        self._hooks: Hooks | None = None  # of the adapter that began the iteration
        self._block: AbstractContextManager[None] | None = None
        self._open: OpKind | None = None
        self._token = 0
        self._microbatch = 0
        self._microbatches = 0  # as told to the hooks
        self._seen = 0  # microbatches since the last optimizer step
        self._learned = 0
        self._steps = False  # whether optimizer steps can be seen
        self._over = True  # the next forward begins an iteration
        self._turned = False  # a backward ran since the last forward
        self._outside = False
        self.is_driven = False  # by a framework that stands on others: it alone says where forwards begin

    @property
    def expects_more(self) -> bool:
        """Whether another microbatch of the iteration under way is to come."""
        return not self._over and self._microbatch + 1 < self._microbatches

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Around the training of such a framework."""
        before, self.is_driven = self.is_driven, True
        try:
            yield
        finally:
            self.is_driven = before

    def forward(self, hooks: Hooks, describe: Describe, microbatches: Callable[[], int]) -> int:
        """A forward begins; the first one of an iteration tells `hooks` of the iteration too.

        microbatches: asked for the number of the iteration that begins.
        """
        with QUIETLY:
            if self._open is not None or self._outside:
                return 0
            if self._over or (self._turned and self._is_full()):
                self._start(hooks, describe, microbatches)
            elif self._turned:
                self._microbatch += 1
                self._seen += 1
            self._turned = False
            return self._begin(OpKind.FORWARD, self._microbatch)
        return 0

    def backward(self) -> int:
        """A backward begins, which ends a forward that is under way."""
        with QUIETLY:
            if self._open is OpKind.BACKWARD or self._over or self._outside:
                return 0
            self._turned = True
            return self._begin(OpKind.BACKWARD, self._microbatch)
        return 0

    def optimizer(self) -> int:
        """An optimizer step begins, which ends all else that is under way."""
        with QUIETLY:
            if self._open is OpKind.OPTIMIZER or self._hooks is None or self._outside:
                return 0
            self._close()
            self._leave()
            if not self._over:
                self._learn()
            self._over = self._steps = True
            return self._begin(OpKind.OPTIMIZER, 0)
        return 0

    def end(self, token: int) -> None:
        """The operation ends that the token was given for, if it has not yet."""
        with QUIETLY:
            if token and token == self._token:
                self._close()

    def stop(self) -> None:
        """Training ends, or starts anew: nothing is under way any more."""
        with QUIETLY:
            self._close()
            self._leave()
        self._over, self._seen = True, 0

    @contextmanager
    def evaluation(self, hooks: Hooks, describe: Describe) -> Iterator[None]:
        """Around what is no training; a block within another one does nothing."""
        if self._outside:
            yield
            return
        with QUIETLY:
            self._close()
        self._outside = True
        try:
            with quiet_block(lambda: hooks.iteration(describe, self._microbatches, training=False)):
                yield
        finally:
            self._outside = False

    def _is_full(self) -> bool:
        return not self._steps and self._microbatch + 1 >= self._microbatches

    def _learn(self) -> None:
        if self._seen > self._microbatches:
            self._learned = self._seen
        elif self._seen < self._learned:
            self._learned = 0
        self._seen = 0

    def _start(self, hooks: Hooks, describe: Describe, microbatches: Callable[[], int]) -> None:
        self._leave()
        self._hooks, self._microbatch = hooks, 0
        self._microbatches = max(_count(microbatches), self._learned)
        self._seen += 1
        self._over = False
        block = hooks.iteration(describe, self._microbatches)
        block.__enter__()
        self._block = block

    def _leave(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def _begin(self, kind: OpKind, microbatch: int) -> int:
        self._close()
        self._open = kind
        self._token += 1
        if self._hooks is not None:
            self._hooks.begin(kind, microbatch)
        return self._token

    def _close(self) -> None:
        if self._open is not None and self._hooks is not None:
            self._open = None
            self._hooks.end()


LOOP = Loop()
"""Of this process."""


def _count(microbatches: Callable[[], int]) -> int:
    """0, which fits no plan, where the framework does not tell."""
    try:
        return int(microbatches())
    except Exception:  # not as the adapter knows it, which is no reason for training to end
        return 0


def loop_facts(framework: str, microbatches: int) -> RunFacts:
    """This rank of a job whose ranks all hold the whole depth of the model."""
    rank, world_size = rank_and_world_size()
    return RunFacts(
        framework=framework,
        rank=rank,
        world_size=world_size,
        stage=0,
        stages=1,
        chunks=1,
        microbatches=microbatches,
        schedule="1f1b",
        device_ordinal=device_ordinal(),
    )


def operation(
    begin: Callable[[Any], int], original: Function, after: Callable[[Any], None] = lambda _owner: None
) -> Function:
    """Make a method an operation: `begin` gets the method's object and gives the token, which `LOOP.end` takes.

    after: what is done once the method has returned.
    """

    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        token = 0
        with QUIETLY:
            token = begin(owner)
        try:
            result = original(owner, *args, **kwargs)
        finally:
            LOOP.end(token)
        with QUIETLY:
            after(owner)
        return result

    return call
