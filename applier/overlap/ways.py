"""How the operation that runs now is carried out: in how many parts, and how each of its partitions runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from energyopt.applier.overlap.asking import Asking
from energyopt.applier.runtime.reports import Reports
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.planned_ops import PlannedOp

Key = tuple[str, int, int]
"""(kind, chunk, microbatch) of an operation; of the forward half where one call runs both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one operation runs: parts that its microbatch is cut into, and its partitions that are not plain."""

    nanobatches: int
    configs: Mapping[str, PartitionConfig]


PlannedWays = Mapping[Key, Way]
"""The operations that do not simply run one kernel after the other on their whole microbatch."""

_NONE: PlannedWays = {}


def planned_ways(ops: tuple[PlannedOp, ...]) -> PlannedWays:
    """The ways of one stage's operations."""
    return {
        (op.op, op.chunk, op.microbatch): Way(nanobatches=op.nanobatches, configs=dict(op.partitions))
        for op in ops
        if op.nanobatches > 1 or op.partitions
    }


class Ways:
    """The plan's ways, looked up while training. Nothing here raises, and a look-up costs 0.1 us.

    They count only once all ranks have agreed to follow them: ranks of which one cuts its microbatch, or talks in
    another communicator, would wait for each other for ever. Therefore nothing changes them on one rank alone: no
    helper that fails, and no slowdown, about which ranks may disagree for an iteration. An alternative of the plan
    changes clocks, and its partitions run as those of the plan itself.

    sha256: of the plan's file; None where its partitions are not to be followed.
    """

    def __init__(self, planned: PlannedWays, reports: Reports, sha256: str | None) -> None:
        self.sha256 = sha256
        self._planned = planned if sha256 is not None else _NONE
        self._reports = reports
        self._refused = False
        self._followed = self._now = _NONE
        self._running: Way | None = None
        self._asking = Asking(self.say)
        configs = [item for way in self._planned.values() for item in way.configs.items()]
        self._overlapped = {name for name, one in configs if one.execution is Execution.OVERLAPPED}
        self.sms = tuple(sorted({one.comm_sms for _, one in configs if one.comm_sms is not None}))

    def follow(self, agreed: bool) -> None:
        """From the next iteration on, if all ranks have agreed; one refusal counts for the whole run."""
        self._refused |= not agreed
        self._followed = _NONE if self._refused else self._planned
        if self._refused and self._planned:
            self.say("not every rank can follow the plan's partitions: they run one kernel after the other")

    def unasked(self) -> None:
        """Training begins, and nobody has asked for communicators."""
        if self._planned:
            self.say(
                "the plan cuts microbatches or overlaps partitions, and this training does not follow it there "
                "(session.communicators, session.overlap): expect other times and energies than the plan's"
            )

    def iteration(self, microbatches: int | None, planned: int) -> None:
        """One begins; of the plan's operations if it has as many microbatches, or says nothing of them."""
        if self._now is not _NONE:
            self._asking.ended()
        self._now = _NONE
        with suppress(Exception):  # whatever was given for a number
            if microbatches is None or microbatches == planned:
                self._now = self._followed

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Nothing in the block is planned."""
        before, self._now = self._now, _NONE
        try:
            yield
        finally:
            self._now = before

    def begin(self, key: Key) -> None:
        """An operation begins."""
        way = self._running = self._now.get(key)
        if way is not None:
            self._asking.planned(way.nanobatches, way.configs)

    def end(self) -> None:
        """It has ended."""
        self._running = None

    def partition(self, name: str) -> PartitionConfig | None:
        """How a partition of the operation that runs now is to run; None for one kernel after the other."""
        way = self._running
        if way is None:
            return None
        self._asking.names.add(name)
        return way.configs.get(name)

    def nanobatches(self) -> int:
        """Parts that the microbatch of the operation that runs now is cut into; 1 for the whole."""
        way = self._running
        if way is None:
            return 1
        self._asking.cut = True
        return way.nanobatches

    def may_overlap(self, name: str) -> bool:
        """Whether the partition of this name runs overlapped in any operation of the plan that is followed."""
        return self._followed is not _NONE and name in self._overlapped

    def unreached(self, partition: str, launch: str) -> None:
        """A launch point was not met."""
        self.say(
            f"partition {partition}: no kernel is called {launch}, before which the plan starts its "
            "communication; it starts where its result is needed"
        )

    def say(self, text: str) -> None:
        """Once."""
        self._reports.once(text, text)


NOTHING_PLANNED = Ways(_NONE, Reports(0), None)
"""Of a run without a plan."""
