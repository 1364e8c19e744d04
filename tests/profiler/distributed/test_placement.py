from dataclasses import replace

import pytest

from energyopt.profiler.distributed.placement import part_of, place
from energyopt.profiler.workloads.composites import with_composites
from energyopt.profiler.workloads.interface import (
    Collective,
    Communication,
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.layers.communication import communication_kernel
from energyopt.schemas.errors import RequestError
from energyopt.schemas.ops import OpKind


def _workload(stages: int, gpus_per_stage: int) -> Workload:
    ops = tuple(
        WorkloadOp(stage=stage, chunk=0, kind=kind, partitions=())
        for stage in range(stages)
        for kind in (OpKind.FORWARD, OpKind.BACKWARD)
    )
    return Workload(name="w", ops=ops, stages=stages, gpus_per_stage=gpus_per_stage)


def test_tensor_2_context_2_data_2_and_2_stages() -> None:
    """Megatron's order, tp-cp-dp-pp: ranks 0-7 are stage 0's, 0-3 its first replica."""
    found = [place(rank, 16, _workload(2, 4)) for rank in range(16)]
    assert [one.stage for one in found] == [0] * 8 + [1] * 8
    peers = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)]
    assert [one.peers for one in found] == [peers[rank // 4] for rank in range(16)]


@pytest.mark.parametrize(("size", "stages"), [(2, 4), (6, 4), (2, 2)])
def test_too_few_ranks_for_all_stages_measure_all_of_them(size: int, stages: int) -> None:
    for rank in range(size):
        found = place(rank, size, _workload(stages, 2))
        assert found.stage is None
        assert rank in found.peers and len(found.peers) == 2


def test_replicas_that_run_collectives_together_measure_together() -> None:
    """Of eight ranks of two stages, each with two replicas of two GPUs, four are peers."""
    workload = replace(_workload(2, 2), replicas=2)
    found = [place(rank, 8, workload) for rank in range(8)]
    assert [one.stage for one in found] == [0] * 4 + [1] * 4
    assert [one.peers for one in found] == [(0, 1, 2, 3)] * 4 + [(4, 5, 6, 7)] * 4
    with pytest.raises(RequestError, match="2 ranks cannot be divided into groups of 4"):
        place(0, 2, workload)


def test_a_stage_measures_its_own_partitions_as_a_whole() -> None:
    talk = communication_kernel(
        "talk",
        Communication(collective=Collective.ALL_REDUCE, message_bytes=1e6, group="tensor", ranks=2),
        "float32",
    )
    ops = []
    for stage in range(2):
        product = Kernel(name=f"product{stage}", flops=1e9, memory_bytes=1e6)
        partition = Partition(
            name=f"layer{stage}",
            kernels=(KernelUse(kernel=product), KernelUse(kernel=talk)),
            launch_points=(product.name,),
        )
        use = PartitionUse(partition=partition)
        ops.append(WorkloadOp(stage=stage, chunk=0, kind=OpKind.FORWARD, partitions=(use,)))
    workload = with_composites(Workload(name="w", ops=tuple(ops), stages=2, gpus_per_stage=2))
    assert [one.partition for one in workload.composites] == ["layer0", "layer1"]
    for stage in range(2):
        part = part_of(workload, stage)
        assert [one.partition for one in part.composites] == [f"layer{stage}"]
        assert {one.name for one in part.kernels() if one.overlap is None} == {f"product{stage}", "talk"}


def test_ranks_that_make_no_whole_groups_are_refused() -> None:
    with pytest.raises(RequestError, match="6 ranks cannot be divided into groups of 4"):
        place(0, 6, _workload(1, 4))


def test_a_rank_measures_its_stage() -> None:
    workload = _workload(2, 1)
    assert part_of(workload, None) is workload
    part = part_of(workload, 1)
    assert [(op.stage, op.kind) for op in part.ops] == [(1, OpKind.FORWARD), (1, OpKind.BACKWARD)]
    assert part.stages == 2
