"""What overlap does to the layers of real models: where it pays, where not, and that its best form moves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from energyopt.profiler.simulation.costs import Costs, kernel_costs
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.profiler.simulation.spec import GpuSpec
from energyopt.profiler.workloads.composites import (
    communication_of,
    composite,
    configurations,
    launch_names,
)
from energyopt.profiler.workloads.interface import PartitionUse, Workload, WorkloadOp
from energyopt.profiler.workloads.job import job_shape
from energyopt.profiler.workloads.presets import PRESETS
from energyopt.profiler.workloads.transformer import transformer_workload
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, PartitionConfig

CLOCKS = (1410, 1200, 900, 600)
COUNTS = (3, 6, 9, 12, 15, 18, 21, 24, 27, 30)
SIDES = ("embedding", "head", "loss")  # they run whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A partition's costs in every configuration, and how often it runs in its op."""

    name: str
    count: int
    costs: dict[PartitionConfig, Costs]

    def fastest(self, clock: int) -> PartitionConfig:
        return min(self.costs, key=lambda config: self.time_s(config, clock))

    def time_s(self, config: PartitionConfig, clock: int) -> float:
        costs = self.costs[config]
        return self.count / costs.runs_per_s[_index(costs, clock)]

    def energy_j(self, config: PartitionConfig, clock: int) -> float:
        costs, index = self.costs[config], _index(self.costs[config], clock)
        return self.time_s(config, clock) * (costs.power_w[index] + costs.leakage_w[index])


def _index(costs: Costs, clock: int) -> int:
    return costs.sm_clock_mhz.index(clock)


def llama(microbatch_size: int, tensor: int, sequence: int) -> Workload:
    settings = {
        "stages": 2,
        "microbatch_size": microbatch_size,
        "tensor_parallel": tensor,
        "sequence_length": sequence,
    }
    return transformer_workload(PRESETS["llama-3.2-3b"], job_shape(settings))


def whole(spec: GpuSpec, op: WorkloadOp) -> list[Choice]:
    """An op as it runs today."""
    return [_choice(spec, op.kind, use, 1, [PLAIN]) for use in _layers(op)]


def halves(spec: GpuSpec, op: WorkloadOp) -> list[Choice]:
    """An op on two half microbatches, from the op on one: each partition twice, in any configuration."""
    found = []
    for use in _layers(op):
        partition = use.partition
        if communication_of(partition) is not None:
            partition = replace(partition, launch_points=launch_names(partition), comm_sms=COUNTS)
        twice = PartitionUse(partition=partition, count=2 * use.count)
        found.append(_choice(spec, op.kind, twice, 2, configurations(partition)))
    return found


def _layers(op: WorkloadOp) -> list[PartitionUse]:
    return [use for use in op.partitions if not use.partition.name.startswith(SIDES)]


def _choice(
    spec: GpuSpec, kind: OpKind, use: PartitionUse, parts: int, configs: Sequence[PartitionConfig]
) -> Choice:
    return Choice(
        name=f"{kind} {use.partition.name}",
        count=use.count,
        costs={
            config: kernel_costs(spec, composite(kind, use.partition, parts, config).kernel)
            for config in configs
        },
    )


@pytest.fixture(scope="module")
def eight_gpus() -> list[Choice]:
    """The halves of llama-3.2-3b's first stage on 8 GPUs, forward and backward."""
    ops = llama(4, 8, 4096).ops[:2]
    return [choice for op in ops for choice in halves(GPUS["a100-sxm4-80gb"], op)]


def test_the_best_number_of_sms_and_the_best_launch_move_with_the_clock(eight_gpus: list[Choice]) -> None:
    def moves(of: str) -> set[str]:
        return {
            choice.name
            for choice in eight_gpus
            if len({getattr(choice.fastest(clock), of) for clock in CLOCKS}) > 1
        }

    assert moves("comm_sms")
    assert moves("comm_launch")


def test_overlap_pays_on_eight_gpus_with_long_sequences(a100: GpuSpec) -> None:
    """The transfers take nearly half of the time: hiding them wins more than halving loses."""
    now, cut = llama(8, 8, 4096).ops[:2], llama(4, 8, 4096).ops[:2]
    for today, half in zip(now, cut, strict=True):
        plain, best = whole(a100, today), halves(a100, half)
        for clock in CLOCKS:
            assert _fastest_s(best, clock) < 0.9 * _fastest_s(plain, clock)
            assert _least_j(best, clock) < _least_j(plain, clock)


def test_overlap_loses_on_two_gpus_with_short_sequences(a100: GpuSpec) -> None:
    """Weights are read twice and every kernel starts and ends twice, for transfers that took little."""
    now, cut = llama(2, 2, 256).ops[:2], llama(1, 2, 256).ops[:2]
    for today, half in zip(now, cut, strict=True):
        plain, best = whole(a100, today), halves(a100, half)
        for clock in CLOCKS:
            assert _fastest_s(best, clock) > 1.05 * _fastest_s(plain, clock)
            assert _least_j(best, clock) > _least_j(plain, clock)


def _fastest_s(choices: list[Choice], clock: int) -> float:
    return math.fsum(choice.time_s(choice.fastest(clock), clock) for choice in choices)


def _least_j(choices: list[Choice], clock: int) -> float:
    return math.fsum(min(choice.energy_j(config, clock) for config in choice.costs) for choice in choices)
