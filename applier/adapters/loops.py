"""Training loops without a pipeline: forward and backward of one microbatch after the other, then the optimizer.

Such frameworks stand on one another (a Trainer on Accelerate, that on DeepSpeed), so the same work passes several
hooks. They all tell the one `LOOP` of the process, which reports each operation once and numbers it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from energyopt.applier.adapters.interface import Hooks
from energyopt.applier.runtime.facts import Describe, RunFacts
from energyopt.schemas.ops import OpKind


class Loop:
    """What the training loop of this process is at.

    An optimizer step ends an iteration; as long as none was seen, the number of microbatches that the framework
    gave does. A microbatch is a forward (or several) and what runs backward after it. Some jobs accumulate over
    more microbatches than their framework knows: then the last iteration's number is expected of the next.
    `forward`, `backward` and `optimizer` give a token for `end`, 0 where the work belongs to an operation that is
    under way.
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

    def forward(self, hooks: Hooks, describe: Describe, microbatches: Callable[[], int]) -> int:
        """A forward begins; the first one of an iteration tells `hooks` of the iteration too.

        microbatches: asked for the number of the iteration that begins.
        """
        if self._open is not None or self._outside:
            return 0
        if self._over or (self._turned and self._is_full()):
            self._start(hooks, describe, microbatches)
        elif self._turned:
            self._microbatch += 1
            self._seen += 1
        self._turned = False
        return self._begin(OpKind.FORWARD, self._microbatch)

    def backward(self) -> int:
        """A backward begins, which ends a forward that is under way."""
        if self._open is OpKind.BACKWARD or self._over or self._outside:
            return 0
        self._turned = True
        return self._begin(OpKind.BACKWARD, self._microbatch)

    def optimizer(self) -> int:
        """An optimizer step begins, which ends all else that is under way."""
        if self._open is OpKind.OPTIMIZER or self._hooks is None or self._outside:
            return 0
        self._close()
        self._leave()
        if not self._over:
            self._learn()
        self._over = self._steps = True
        return self._begin(OpKind.OPTIMIZER, 0)

    def end(self, token: int) -> None:
        """The operation ends that the token was given for, if it has not yet."""
        if token and token == self._token:
            self._close()

    def stop(self) -> None:
        """Training ends, or starts anew: nothing is under way any more."""
        self._close()
        self._leave()
        self._over, self._seen = True, 0

    @contextmanager
    def evaluation(self, hooks: Hooks, describe: Describe) -> Iterator[None]:
        """Around what is no training; a block within another one does nothing."""
        if self._outside:
            yield
            return
        self._close()
        self._outside = True
        try:
            with hooks.iteration(describe, self._microbatches, training=False):
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
        self._block = hooks.iteration(describe, self._microbatches)
        self._block.__enter__()
        self._over = False

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


def rank_and_world_size() -> tuple[int, int]:
    """From torch.distributed where it has been started, else from the launcher's environment."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _from_environment("RANK") or 0, _from_environment("WORLD_SIZE") or 1


def device_ordinal() -> int | None:
    """The GPU that CUDA uses now; before CUDA has been started, the one that the launcher meant, if it said so."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    return _from_environment("LOCAL_RANK")


def _from_environment(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None
