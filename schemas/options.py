"""What an operation can run at: operating points, as frontier files list them for each (stage, chunk, kind)."""

from dataclasses import dataclass
from typing import Any

from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKey, OpKind
from energyopt.schemas.partitions import Partitions, partitions_from_json, partitions_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One operating point that an operation may run at; time and energy on one GPU, as measured.

    nanobatches: parts that the microbatch is cut into, so that one computes while another communicates; 1 for the
        whole microbatch at once.
    partitions: those that do not simply run one kernel after the other.
    """

    sm_clock_mhz: int
    time_s: float
    energy_j: float
    nanobatches: int = 1
    partitions: Partitions = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is one kernel after the other on the whole microbatch: what runs without a plan."""
        return self.nanobatches == 1 and not self.partitions


def options_to_json(key: OpKey, options: tuple[Option, ...]) -> dict[str, Any]:
    """Lists with one entry for each option; executions are written where any option is not plain."""
    found: dict[str, Any] = {
        "stage": key.stage,
        "chunk": key.chunk,
        "op": str(key.kind),
        "sm_clock_mhz": [option.sm_clock_mhz for option in options],
        "time_s": [option.time_s for option in options],
        "energy_j": [option.energy_j for option in options],
    }
    if not all(option.is_plain for option in options):
        found["executions"] = [
            {"nanobatches": one.nanobatches, "partitions": partitions_to_json(one.partitions)}
            for one in options
        ]
    return found


def options_from_json(node: Node) -> tuple[OpKey, tuple[Option, ...]]:
    """The counterpart of `options_to_json`.

    Raises:
        FileFormatError: names the field at fault.
    """
    kind = node.field("op").text()
    if kind not in list(OpKind):
        node.field("op").fail(f"{kind!r} is none of {', '.join(OpKind)}")
    key = OpKey(node.field("stage").integer(0), node.field("chunk").integer(0), OpKind(kind))
    clocks = [member.integer(1) for member in node.field("sm_clock_mhz").items()]
    times = [member.number(0.0) for member in node.field("time_s").items()]
    energies = [member.number() for member in node.field("energy_j").items()]
    executions = _executions(node, len(clocks))
    if not len(clocks) == len(times) == len(energies) == len(executions) > 0:
        node.fail("its lists differ in length, or are empty")
    joined = zip(clocks, times, energies, executions, strict=True)
    return key, tuple(
        Option(sm_clock_mhz=clock, time_s=time_s, energy_j=energy_j, nanobatches=count, partitions=partitions)
        for clock, time_s, energy_j, (count, partitions) in joined
    )


def _executions(node: Node, count: int) -> list[tuple[int, Partitions]]:
    given = node.optional("executions")
    if given is None:
        return [(1, ())] * count
    return [
        (one.field("nanobatches").integer(1), partitions_from_json(one.field("partitions")))
        for one in given.items()
    ]
