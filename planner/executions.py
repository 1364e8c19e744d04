"""How the operations of a plan are carried out, counted per (stage, chunk, kind), and in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from energyopt.planner.wording import MISSING
from energyopt.schemas.ops import OpKey
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig
from energyopt.schemas.planned_ops import PlannedOp, Stages

_SHOWN = 4  # launch points of a cell

Configs = Counter[PartitionConfig]
"""Of one partition, how many operations run it in each configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """How some operations are carried out.

    nanobatches: operations by the number of parts that they cut their microbatch into. partitions: by name, those
        that any of the operations runs otherwise than plainly; all operations count in each.
    """

    nanobatches: Counter[int]
    partitions: dict[str, Configs]

    @property
    def ops(self) -> int:
        """How many operations these are."""
        return self.nanobatches.total()

    @property
    def in_nanobatches(self) -> int:
        """How many of them cut their microbatch."""
        return sum(ops for parts, ops in self.nanobatches.items() if parts > 1)

    @property
    def is_plain(self) -> bool:
        """Whether all of them simply run one kernel after the other on the whole microbatch."""
        return not self.partitions and set(self.nanobatches) <= {1}

    def configs(self, partition: str) -> Configs:
        """The operations by their configuration of a partition, plain where none names it."""
        return self.partitions.get(partition, Counter({PLAIN: self.ops}))


def executions(ops: Sequence[PlannedOp]) -> Executions:
    """Count how operations are carried out."""
    names = sorted({name for op in ops for name, config in op.partitions if not config.is_plain})
    return Executions(
        nanobatches=Counter(op.nanobatches for op in ops),
        partitions={name: Counter(config_in(op, name) for op in ops) for name in names},
    )


def executions_by_key(stages: Stages) -> dict[OpKey, Executions]:
    """The same for each (stage, chunk, kind) of a plan, by stage, chunk and kind."""
    found: dict[OpKey, list[PlannedOp]] = {}
    for stage, ops in enumerate(stages):
        for op in ops:
            found.setdefault(OpKey(stage, op.chunk, op.op), []).append(op)
    return {key: executions(ops) for key, ops in sorted(found.items())}


def config_in(op: PlannedOp, partition: str) -> PartitionConfig:
    """How an operation runs a partition; plainly where it does not name it."""
    return next((config for name, config in op.partitions if name == partition), PLAIN)


def nanobatch_words(nanobatches: Counter[int]) -> str:
    """Such as `6 of 8 in 2`: how many operations cut their microbatch, and into how many parts."""
    total = nanobatches.total()
    cut = [f"{ops} of {total} in {parts}" for parts, ops in sorted(nanobatches.items()) if parts > 1]
    return ", ".join(cut) or f"0 of {total}"


def overlapped_words(configs: Configs) -> str:
    """Such as `6 of 8`: how many operations run a partition overlapped."""
    ops = sum(count for config, count in configs.items() if config.execution is Execution.OVERLAPPED)
    return f"{ops} of {configs.total()}"


def sm_words(configs: Configs) -> str:
    """Such as `3 to 24`: the SMs that communication gets where it is not the library that chooses."""
    counts = sorted({config.comm_sms for config in configs if config.comm_sms is not None})
    found = [] if not counts else [span(counts)]
    free = sum(
        ops
        for config, ops in configs.items()
        if config.comm_sms is None and config.execution is Execution.OVERLAPPED
    )
    return ", ".join([*found, *([f"library's own ({free})"] if free else [])]) or MISSING


def launch_words(configs: Configs) -> str:
    """Such as `rope (6), qkv_proj (2)`: the kernels that communication is launched before, commonest first."""
    points: Counter[str] = Counter()
    for config, ops in configs.items():
        if config.comm_launch is not None:
            points[config.comm_launch] += ops
    ranked = sorted(points.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} ({ops})" for name, ops in ranked[:_SHOWN]]
    return ", ".join([*shown, *([f"{len(ranked) - _SHOWN} more"] if len(ranked) > _SHOWN else [])]) or MISSING


def clock_words(configs: Configs) -> str:
    """Such as `900 to 1200 (6)`: clocks of a partition's own, and how many operations have one."""
    own = [config for config in configs if config.sm_clock_mhz is not None]
    if not own:
        return MISSING
    return f"{span([config.sm_clock_mhz or 0 for config in own])} ({sum(configs[one] for one in own)})"


def config_words(configs: Configs) -> str:
    """All of it in one cell, such as `6 of 8 overlapped, SMs 3 to 24, before rope (6)`."""
    parts = [f"{overlapped_words(configs)} overlapped"]
    for label, words in (
        ("SMs", sm_words(configs)),
        ("before", launch_words(configs)),
        ("own MHz", clock_words(configs)),
    ):
        if words != MISSING:
            parts.append(f"{label} {words}")
    return ", ".join(parts)


def span(values: Iterable[int]) -> str:
    """The range of some numbers, such as `3 to 24`, or the only one."""
    listed = sorted(values)
    return str(listed[0]) if listed[0] == listed[-1] else f"{listed[0]} to {listed[-1]}"


def ordered(configs: Configs) -> list[tuple[PartitionConfig, int]]:
    """Configurations with their operations, sequential ones first, then by SMs, launch point and clock."""
    return sorted(configs.items(), key=lambda item: _rank(item[0]))


def _rank(config: PartitionConfig) -> tuple[bool, int, str, int]:
    overlapped = config.execution is Execution.OVERLAPPED
    return overlapped, config.comm_sms or 0, config.comm_launch or "", config.sm_clock_mhz or 0
