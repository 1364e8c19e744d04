"""How all ranks move to another point of the frontier in the same iteration, without a server.

Each rank has a wish, usually 1 (run the plan itself); the largest wins. At the end of every iteration the ranks
start taking the maximum, beside what follows the pipeline (optimizer step), and read it where the next iteration
begins. All of it is on the CPU: nobody waits for a GPU.

The ranks have a gloo group of their own for it, made through the store of the training's default process group,
whatever backend that has. In the training's own group a collective that one rank does not join would be taken for
the training's next one. Before the group is made, all ranks must have said that they take part. Whatever goes wrong
later costs one wait of `limit_s`, once, and then every rank runs the plan itself.
"""

import ctypes
import os
import resource
import weakref
from datetime import timedelta
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol

from energyopt.applier.runtime.ranks import started_torch
from energyopt.schemas.errors import EnergyoptError

LIMIT_S = 10.0
_DECIDE_AT = 3  # where this iteration begins, two are complete, and every rank has begun one
_LOOK_EVERY_S = 0.0002
_OPEN: "weakref.WeakSet[Everybody]" = weakref.WeakSet()
_SESSIONS = count()  # of this process, one after the other: what was decided for one says nothing of the next


class NoAgreementError(EnergyoptError):
    """The ranks cannot agree, or not any more; the text says why."""


class Agreement(Protocol):
    """One rank's part in agreeing on a slowdown: `result`, `launch`, `result`, `launch` and so on."""

    def result(self) -> float:
        """Where an iteration begins: the largest wish of those launched last; 1 where there is none yet.

        Raises:
            NoAgreementError: there will be none any more.
        """

    def launch(self, wish: float) -> None:
        """At the iteration's end: say what this rank wishes."""

    def close(self) -> None:
        """Training is over, or this rank gives up."""


class Alone:
    """The agreement of a run of one process."""

    def __init__(self) -> None:
        self._wish = 1.0

    def result(self) -> float:
        """Give the wish."""
        return self._wish

    def launch(self, wish: float) -> None:
        """Take it."""
        self._wish = wish

    def close(self) -> None:
        """Nothing is open."""


class Everybody:
    """The agreement of all ranks of torch.distributed's default group.

    limit_s: how long the ranks may have to be waited for, s.
    """

    def __init__(self, torch: Any, limit_s: float = LIMIT_S) -> None:
        self._distributed = torch.distributed
        self._c10d = torch.distributed.distributed_c10d
        self._limit_s = limit_s
        self._value = torch.ones(1, dtype=torch.float64, device="cpu")
        self._options = self._c10d.AllreduceOptions()
        self._options.reduceOp = self._distributed.ReduceOp.MAX
        self._wish = 1.0
        self._iterations = 0
        self._group: Any = None
        self._work: Any = None
        _check_room(self._distributed.get_world_size())
        default = self._c10d._get_default_store()
        self._store = self._distributed.PrefixStore(f"energyopt/{next(_SESSIONS)}", default)
        _OPEN.add(self)
        self._store.add("joined", 1)  # last: who has counted itself takes part

    def result(self) -> float:
        """Finish the collective; the first one makes the group."""
        self._iterations += 1
        if self._iterations < _DECIDE_AT:
            return 1.0
        if self._group is None:
            self._decide()
            self._group = self._make_group()
            self._reduce()
        self._wait()
        return float(self._value.item())

    def launch(self, wish: float) -> None:
        """Start it, once there is a group."""
        self._wish = wish
        if self._group is not None:
            self._reduce()

    def close(self) -> None:
        """Close the connections, which tells the others at once.

        What was launched last is waited for, until the others launch it, leave, or `limit_s` is over: its thread
        must not outlive the interpreter.
        """
        self._work = self._group = None

    def leave_to_parent(self) -> None:
        """In a forked child: never let the group be destroyed, which would wait for threads that are not here."""
        if self._group is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._group))

    def _decide(self) -> None:
        """The first one to look decides for all whether everybody is there: else the others would be waited for."""
        everybody = self._store.add("joined", 0) == self._distributed.get_world_size()
        if self._store.compare_set("agree", "", "yes" if everybody else "no") != b"yes":
            raise NoAgreementError("not every rank runs the shim")

    def _make_group(self) -> Any:
        """Meet the others; on a connection of its own, so that training's use of the store is not held up."""
        store = self._store.clone() if hasattr(self._store, "clone") else self._store
        distributed, limit = self._distributed, timedelta(seconds=self._limit_s)
        return self._c10d.ProcessGroupGloo(store, distributed.get_rank(), distributed.get_world_size(), limit)

    def _reduce(self) -> None:
        self._value.fill_(self._wish)
        self._work = self._group.allreduce([self._value], self._options)

    def _wait(self) -> None:
        deadline = monotonic() + self._limit_s
        while not self._work.is_completed():
            if monotonic() > deadline:
                raise NoAgreementError(
                    f"some rank has not come to its next iteration for {self._limit_s:g} s"
                )
            sleep(_LOOK_EVERY_S)
        self._work.wait()  # raises what went wrong


def _check_room(world_size: int) -> None:
    """Each rank holds a connection to each other; a training run must not lack them for its own files."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    free = most - len(os.listdir(Path("/proc/self/fd")))  # noqa: PTH208 - it is the number that counts
    if most != resource.RLIM_INFINITY and world_size > free / 2:
        raise NoAgreementError(
            f"{world_size} ranks need more open files than ulimit -n {most} leaves; raise it"
        )


def agreement(world_size: int, limit_s: float = LIMIT_S) -> Agreement:
    """Among all ranks that torch.distributed has, or of a process on its own; asked for at the first iteration.

    Args:
        world_size: the number of ranks, as far as the run says.
        limit_s: how long ranks may have to be waited for, s.

    Raises:
        NoAgreementError: several ranks, which cannot reach each other.
    """
    torch = started_torch()
    if torch is not None and torch.distributed.get_world_size() > 1:
        return Everybody(torch, limit_s)
    if world_size > 1:
        raise NoAgreementError(
            f"this is one of {world_size} ranks, and torch.distributed.init_process_group was not called before "
            "the first iteration"
        )
    return Alone()


def _after_fork() -> None:
    for one in tuple(_OPEN):
        one.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
