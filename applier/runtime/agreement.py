"""How all ranks move to another point of the frontier in the same iteration, without a server.

Each rank has a wish, usually 1 (run the plan itself); the largest wins. At the end of every iteration the ranks
take the maximum over the training's own default process group, beside what follows the pipeline (optimizer step),
and read it where the next iteration begins. Nobody waits for the GPU.

A collective that one rank does not join hangs the others, so none is started before all ranks are known to join:
each counts itself in the group's own key-value store, and the first one to look, two iterations later, decides for
all whether everybody was there.
"""

import sys
from itertools import count
from typing import Any, Protocol

_JOINED, _DECISION = "energyopt/joined", "energyopt/agree"
_DECIDE_AT = 2  # iterations: one that is complete has seen every rank
_SESSIONS = count()  # of this process, one after the other: what was decided for one says nothing of the next


class Agreement(Protocol):
    """One rank's part in agreeing on a slowdown."""

    def launch(self, wish: float) -> None:
        """At an iteration's end: say what this rank wishes."""

    def result(self) -> float | None:
        """Where the next iteration begins: the largest wish, or None where the ranks cannot agree."""


class Alone:
    """The agreement of a run of one process."""

    def __init__(self) -> None:
        self._wish = 1.0

    def launch(self, wish: float) -> None:
        """Take the wish."""
        self._wish = wish

    def result(self) -> float | None:
        """Give it."""
        return self._wish


class Everybody:
    """The agreement of all ranks of torch.distributed's default group."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._distributed = torch.distributed
        self._store = self._distributed.distributed_c10d._get_default_store()
        self._on_cpu = "gloo" in str(self._distributed.get_backend_config())
        self._iterations = 0
        self._joined: bool | None = None
        self._pending: tuple[Any, ...] | None = None
        number = next(_SESSIONS)
        self._count_key, self._decision_key = f"{_JOINED}/{number}", f"{_DECISION}/{number}"
        self._store.add(self._count_key, 1)  # last: who has counted itself takes part

    def launch(self, wish: float) -> None:
        """Start the collective, once it is known that all ranks will."""
        self._iterations += 1
        if self._iterations < _DECIDE_AT:
            return
        if self._joined is None:
            self._joined = self._decide()
        if self._joined:
            self._pending = self._on_host(wish) if self._on_cpu else self._on_gpu(wish)

    def result(self) -> float | None:
        """Finish it; 1 as long as nobody could have agreed on anything else."""
        if self._joined is False:
            return None
        if self._pending is None:
            return 1.0
        wait, value = self._pending
        self._pending = None
        wait()
        return float(value.item())

    def _decide(self) -> bool:
        everybody = self._store.add(self._count_key, 0) == self._distributed.get_world_size()
        decided = self._store.compare_set(self._decision_key, "", "yes" if everybody else "no")
        return bool(decided == b"yes")

    def _on_host(self, wish: float) -> tuple[Any, ...]:
        value = self._torch.tensor([wish], dtype=self._torch.float64)
        work = self._distributed.all_reduce(value, op=self._distributed.ReduceOp.MAX, async_op=True)
        return work.wait, value

    def _on_gpu(self, wish: float) -> tuple[Any, ...]:
        """On a stream of its own: waiting for its event waits for the peers, never for this GPU's other work."""
        torch = self._torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            value = torch.tensor([wish], dtype=torch.float64).pin_memory().to("cuda", non_blocking=True)
            work = self._distributed.all_reduce(value, op=self._distributed.ReduceOp.MAX, async_op=True)
            work.wait()
            host = torch.empty(1, dtype=torch.float64, pin_memory=True)
            host.copy_(value, non_blocking=True)
            done = torch.cuda.Event()
            done.record(stream)
        return done.synchronize, host


def agreement() -> Agreement:
    """Among all ranks where torch.distributed has been started, else of this process alone."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return Alone()
    return Everybody(torch) if torch.distributed.get_world_size() > 1 else Alone()
