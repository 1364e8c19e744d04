"""How the partitions of an operation run, beside the operation's clock. Standard library only.

An operation that runs its microbatch whole and every partition one after the other has nothing to say here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from energyopt.schemas.nodes import Node


class Execution(StrEnum):
    """Whether a partition's communication runs beside its compute kernels or by itself."""

    SEQUENTIAL = "sequential"
    OVERLAPPED = "overlapped"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionConfig:
    """One way to run a partition.

    comm_sms: SMs given to the communication kernel; None leaves the library's own choice.
    comm_launch: the compute kernel before which it is launched; None where it runs by itself.
    sm_clock_mhz: the partition's own clock; None where it is the operation's.
    """

    execution: Execution
    comm_sms: int | None = None
    comm_launch: str | None = None
    sm_clock_mhz: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this is what a partition does that nobody planned anything for."""
        return self == PLAIN

    def __str__(self) -> str:
        sms = "" if self.comm_sms is None else f", {self.comm_sms} SMs"
        launch = "" if self.comm_launch is None else f", before {self.comm_launch}"
        clock = "" if self.sm_clock_mhz is None else f", {self.sm_clock_mhz} MHz"
        return f"{self.execution}{sms}{launch}{clock}"


PLAIN = PartitionConfig(execution=Execution.SEQUENTIAL)

_MEMBERS = ("execution", "comm_sms", "comm_launch", "sm_clock_mhz")

Partitions = tuple[tuple[str, PartitionConfig], ...]
"""Name and configuration of the partitions that are not plain, in order of name."""


def partitions_to_json(partitions: Partitions) -> dict[str, Any]:
    """An object with one member for each partition; what is None is left out."""
    return {name: _to_json(config) for name, config in partitions}


def partitions_from_json(node: Node | None) -> Partitions:
    """The counterpart of `partitions_to_json`; nothing where there is no such member."""
    if node is None:
        return ()
    return tuple((name, _from_json(node.field(name))) for name in sorted(node.members()))


def named(configs: Sequence[tuple[str, PartitionConfig]]) -> Partitions:
    """The partitions that are not plain, in order of name."""
    return tuple(sorted((name, config) for name, config in configs if not config.is_plain))


def _to_json(config: PartitionConfig) -> dict[str, Any]:
    values = {
        "execution": str(config.execution),
        "comm_sms": config.comm_sms,
        "comm_launch": config.comm_launch,
        "sm_clock_mhz": config.sm_clock_mhz,
    }
    return {name: value for name, value in values.items() if value is not None}


def _from_json(node: Node) -> PartitionConfig:
    node.only(*_MEMBERS)
    execution = node.field("execution").text()
    if execution not in list(Execution):
        node.field("execution").fail(f"{execution!r} is none of {', '.join(Execution)}")
    sms, launch = node.optional("comm_sms"), node.optional("comm_launch")
    clock = node.optional("sm_clock_mhz")
    if execution == Execution.OVERLAPPED and not node.field("comm_launch").text():
        node.field("comm_launch").fail("expected the name of a kernel, found ''")
    if execution == Execution.SEQUENTIAL and launch is not None:
        launch.fail("a sequential partition launches its communication before no kernel")
    return PartitionConfig(
        execution=Execution(execution),
        comm_sms=None if sms is None else sms.integer(minimum=1),
        comm_launch=None if launch is None else launch.text(),
        sm_clock_mhz=None if clock is None else clock.integer(minimum=1),
    )
