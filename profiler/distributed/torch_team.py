"""A team over torch.distributed's gloo, on CPUs, whatever the GPUs can."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from energyopt.schemas.errors import MeasurementError

ANSWER_WITHIN = timedelta(minutes=20)
"""A rank may be this far behind, measuring, before the others give it up."""

_PAUSE_S = 1e-3

Result = TypeVar("Result")


def join(timeout: timedelta = ANSWER_WITHIN) -> None:
    """Join the processes that the launcher started.

    Raises:
        MeasurementError: they do not find each other.
    """
    import torch.distributed as dist

    with ended_by_signals():
        _asking(lambda: dist.init_process_group("cpu:gloo", timeout=timeout))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While ranks meet, a signal ends this one at once: there are no clocks to give back yet.

    Torch waits for the others in code that Python's handlers cannot interrupt. A rank that failed would else keep
    them for as long as the launcher is patient, half a minute with torchrun.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [
        one
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(one) != signal.SIG_IGN
    ]
    earlier = {one: signal.signal(one, signal.SIG_DFL) for one in ending}
    try:
        yield
    finally:
        for one, handler in earlier.items():
            signal.signal(one, handler)


def leave() -> None:
    """Leave them; a rank that is gone already is no error."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


class TorchTeam:
    """Some ranks, one of them this one. Values travel as JSON: nothing that a peer sends is evaluated."""

    def __init__(self, ranks: tuple[int, ...], group: Any) -> None:
        """Wrap a gloo process group that holds exactly these ranks."""
        import torch.distributed as dist

        self._group = group
        self.size = len(ranks)
        self.rank = ranks.index(dist.get_rank())

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        return _asking(lambda: self._gather(json.dumps(value).encode()))

    def _gather(self, content: bytes) -> list[Any]:
        import torch
        import torch.distributed as dist

        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        _await(dist.all_gather(lengths, torch.tensor([len(content)]), group=self._group, async_op=True))
        longest = max(int(length) for length in lengths)
        mine = torch.frombuffer(bytearray(content.ljust(longest)), dtype=torch.uint8)
        texts = [torch.empty_like(mine) for _ in range(self.size)]
        _await(dist.all_gather(texts, mine, group=self._group, async_op=True))
        return [json.loads(bytes(text.numpy()).rstrip()) for text in texts]


def _await(work: Any) -> None:
    """Wait in short sleeps: between them a signal is acted on, and a rank that is stopped gives its clocks back."""
    while not work.is_completed():
        time.sleep(_PAUSE_S)
    work.wait()


def _asking(action: Callable[[], Result]) -> Result:
    """Do something with the others; what goes wrong then is that one of them is gone or does not answer."""
    try:
        return action()
    except (RuntimeError, ValueError) as error:
        text = str(error).strip().partition("\n")[0]
        raise MeasurementError(
            f"another rank is gone, or did not answer within {ANSWER_WITHIN.total_seconds() / 60:.0f} min: "
            f"{text:.200}"
        ) from error
