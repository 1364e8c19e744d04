"""Where a profile comes from: device, workload, and how it was measured."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from energyopt.schemas.nodes import Node
from energyopt.schemas.partition_order import PartitionOrder, order_from_json, order_to_json


class DeviceKind(StrEnum):
    """What stood behind the measurement."""

    NVML = "nvml"
    SIMULATED = "simulated"
    IMPORTED = "imported"


class Scope(StrEnum):
    """What the power reading covers; numbers of different scope are never compared."""

    GPU_BOARD = "gpu_board"
    MODULE = "module"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMetadata:
    """Where a profile comes from.

    `gpus_per_stage` is the number of GPUs that one stage's rows stand for: totals multiply by it. `measurement`
    says how the numbers came about (energy source, ticks, windows); it decides no plan. `p2p_time_s` and
    `fixed_time_s` were fitted to training runs: what a transfer between two stages takes, and an iteration outside
    its operations; plans take them unless others are asked for. `partition_order` names the partitions of each
    operation in the order in which they run, for those that have several; empty where nobody said.
    """

    device_name: str
    device_kind: DeviceKind
    wait_power_w: float
    gpus_per_stage: int = 1
    device_uuid: str | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    memory_clock_mhz: int | None = None
    scope: Scope = Scope.GPU_BOARD
    idle_power_w: float | None = None
    clock_switch_latency_s: float | None = None
    p2p_time_s: float | None = None
    fixed_time_s: float | None = None
    workload: dict[str, str | int | float] = field(default_factory=dict)
    measurement: dict[str, str | int | float] = field(default_factory=dict)
    partition_order: PartitionOrder = field(default_factory=dict)
    source: str | None = None
    time: str | None = None
    host: str | None = None


def metadata_to_json(metadata: ProfileMetadata) -> dict[str, Any]:
    """The JSON object that the file keeps beside its rows; the order of partitions where it is known."""
    found = {item.name: getattr(metadata, item.name) for item in fields(metadata)}
    order = found.pop("partition_order")
    return found | ({"partition_order": order_to_json(order)} if order else {})


def metadata_from_json(header: Node) -> ProfileMetadata:
    """The counterpart of `metadata_to_json`.

    Raises:
        FileFormatError: names the field at fault.
    """

    def text(name: str) -> str | None:
        node = header.optional(name)
        return None if node is None else node.text()

    def number(name: str) -> float | None:
        node = header.optional(name)
        return None if node is None else node.number(minimum=0.0)

    memory_clock = header.optional("memory_clock_mhz")
    gpus = header.optional("gpus_per_stage")
    return ProfileMetadata(
        device_name=header.field("device_name").text(),
        device_kind=DeviceKind(_one_of(header.field("device_kind"), DeviceKind)),
        wait_power_w=header.field("wait_power_w").number(minimum=0.0),
        gpus_per_stage=1 if gpus is None else gpus.integer(minimum=1),
        device_uuid=text("device_uuid"),
        driver=text("driver"),
        power_limit_w=number("power_limit_w"),
        memory_clock_mhz=None if memory_clock is None else memory_clock.integer(minimum=0),
        scope=Scope(_one_of(header.field("scope"), Scope)),
        idle_power_w=number("idle_power_w"),
        clock_switch_latency_s=number("clock_switch_latency_s"),
        p2p_time_s=number("p2p_time_s"),
        fixed_time_s=number("fixed_time_s"),
        workload=_named_values(header, "workload"),
        measurement=_named_values(header, "measurement"),
        partition_order=order_from_json(header.optional("partition_order")),
        source=text("source"),
        time=text("time"),
        host=text("host"),
    )


def _named_values(header: Node, name: str) -> dict[str, str | int | float]:
    node = header.optional(name)
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        node.fail("expected an object")
    return {key: _setting(node.field(key)) for key in node.value if node.value[key] is not None}


def _setting(node: Node) -> str | int | float:
    if isinstance(node.value, str):
        return node.value
    return node.integer() if isinstance(node.value, int) else node.number()


def _one_of(node: Node, kinds: Iterable[StrEnum]) -> str:
    known: Sequence[str] = list(kinds)
    if node.text() not in known:
        node.fail(f"{node.text()!r} is none of {', '.join(known)}")
    return node.text()
