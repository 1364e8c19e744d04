"""A session whose plan is compared with the run, and whose helper is started, where the first iteration begins.

Only then has a training script started what it uses: torch.distributed, which knows the ranks and lets them agree,
and CUDA, which knows this rank's GPU and times operations on it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from energyopt.applier.overlap.communicators import Communicators, settle
from energyopt.applier.overlap.region import Region
from energyopt.applier.runtime.off import OffSession
from energyopt.applier.runtime.session import Session
from energyopt.schemas.partitions import PartitionConfig

AnySession = Session | OffSession


class LateSession:
    """What training calls, from before the first iteration on; every call is `Session`'s of the same name.

    opening: gives the session itself; never raises.
    """

    begin: Callable[..., None]
    end: Callable[[], None]
    op: Callable[..., AbstractContextManager[None]]
    outside: Callable[[], AbstractContextManager[None]]
    step: Callable[..., None]
    start: Callable[..., None]
    finish: Callable[[], None]
    close: Callable[[], None]
    partition: Callable[[str], PartitionConfig | None]
    nanobatches: Callable[[], int]
    overlap: Callable[..., Region]

    def __init__(self, opening: Callable[[], AnySession]) -> None:
        self._opening = opening
        self._session: AnySession | None = None
        self._wish: Any = None
        self._asked: list[Communicators] = []
        self._use(OffSession())
        self.step, self.start, self.close = self._first_step, self._first_start, self._never_start

    def open(self) -> AnySession:
        """The session itself, opened now if it was not: from here on calls go to it without a detour."""
        if self._session is None:
            self._session = self._opening()
            self._use(self._session)
            settle(self._asked, self._session.ways)
            if self._wish is not None:
                self._session.set_slowdown(self._wish)
        return self._session

    def set_slowdown(self, slowdown: float) -> None:
        """`Session.set_slowdown`; a wish from before the first iteration is kept until then."""
        if self._session is None:
            self._wish = slowdown
        else:
            self._session.set_slowdown(slowdown)

    def communicators(self, group: Any = None) -> Communicators:
        """Communicators for a plan's partitions, once for each group of ranks that they talk in.

        All ranks of the run ask, in the same order, once torch.distributed has been started; best before the first
        iteration, where they are made, which all ranks must come to. Only with them are a plan's partitions
        followed, and only if every rank has the same plan and can.

        Args:
            group: a process group of torch.distributed, such as that of tensor parallelism; None for all ranks.
        """
        found = Communicators(group)
        self._asked.append(found)
        if self._session is not None:
            settle([found], self._session.ways)
        return found

    def _first_step(self, microbatches: int | None = None) -> None:
        self.open().step(microbatches)

    def _first_start(self, microbatches: int | None = None) -> None:
        self.open().start(microbatches)

    def _never_start(self) -> None:
        self._opening = OffSession

    def _use(self, session: AnySession) -> None:
        self.begin, self.end, self.op, self.outside = session.begin, session.end, session.op, session.outside
        self.step, self.start, self.finish = session.step, session.start, session.finish
        self.close = session.close
        self.partition, self.nanobatches = session.partition, session.nanobatches
        self.overlap = session.overlap
