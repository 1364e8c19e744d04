import pytest

from energyopt.profiler.distributed.placement import part_of, place
from energyopt.profiler.workloads.interface import Workload, WorkloadOp
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


def test_ranks_that_make_no_whole_groups_are_refused() -> None:
    with pytest.raises(RequestError, match="6 ranks cannot be divided into groups of 4"):
        place(0, 6, _workload(1, 4))


def test_a_rank_measures_its_stage() -> None:
    workload = _workload(2, 1)
    assert part_of(workload, None) is workload
    part = part_of(workload, 1)
    assert [(op.stage, op.kind) for op in part.ops] == [(1, OpKind.FORWARD), (1, OpKind.BACKWARD)]
    assert part.stages == 2
