"""One communication that is to start before a certain kernel, and must have ended before its result is used."""

from contextlib import suppress
from typing import Any

from energyopt.applier.overlap import collectives
from energyopt.applier.overlap.collectives import Collective, Started
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.overlap.ways import Ways
from energyopt.schemas.partitions import Execution


class Pending:
    """A communication beside the kernels of a partition, or, where none is planned, before them.

    at: the kernel before which it starts; None once there is nothing to wait for.
    """

    __slots__ = ("_collective", "_communicators", "_partition", "_result", "_sms", "_started", "_ways", "at")

    def __init__(
        self,
        ways: Ways,
        partition: str,
        collective: Collective | None,
        communicators: Communicators,
        tensor: Any,
    ) -> None:
        """Look up how the partition runs now, and where it is not overlapped, communicate.

        Args:
            ways: what is planned.
            partition: its name in the plan.
            collective: what is communicated; None for nothing.
            communicators: where.
            tensor: what goes in; the result where nothing is communicated.
        """
        config = ways.partition(partition)
        self._ways, self._partition = ways, partition
        self._collective, self._communicators = collective, communicators
        self._sms = None if config is None else config.comm_sms
        self._started: Started | None = None
        self._result = tensor
        self.at: str | None = None
        if collective is None or tensor is None or communicators.size <= 1:
            return
        if config is not None and config.execution is Execution.OVERLAPPED:
            self.at = config.comm_launch
        if self.at is None:
            self._start(collective)
            self.result()

    def launch(self) -> None:
        """Start it, if it has not started."""
        if self.at is not None and self._collective is not None:
            self.at = None
            self._start(self._collective)

    def result(self) -> Any:
        """What it brings, waited for; it starts now if its kernel was not met."""
        if self.at is not None:
            self._ways.unreached(self._partition, self.at)
            self.launch()
        started, self._started = self._started, None
        if started is not None:
            self._result = started.wait()
        return self._result

    def abandon(self) -> None:
        """Nobody will use the result, but other ranks may wait for this one's part. Does not wait, nor raise."""
        with suppress(Exception):  # another one is on its way
            self.launch()

    def _start(self, collective: Collective) -> None:
        group = self._communicators.group(self._sms)
        self._started = collectives.start(collective, self._result, group, self._communicators.size)
