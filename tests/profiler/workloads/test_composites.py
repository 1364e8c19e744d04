"""Partitions in all their configurations, as kernels that can be measured."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from energyopt.profiler.workloads.composites import (
    composite,
    composites_of,
    configurations,
    launch_names,
    only_cut,
    overlappable,
    with_composites,
    with_sm_counts,
)
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
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.partitions import PLAIN, Execution, PartitionConfig

TALK = communication_kernel(
    "sum",
    Communication(collective=Collective.ALL_REDUCE, message_bytes=1e6, group="tensor", ranks=2),
    "bfloat16",
)
NORM, PRODUCT = (
    Kernel(name=name, flops=flops, memory_bytes=1e6) for name, flops in (("norm", 1e6), ("mm", 1e9))
)


def _partition(
    *kernels: Kernel, name: str = "p", launch: tuple[str, ...] = (), sms: tuple[int, ...] = ()
) -> Partition:
    uses = tuple(KernelUse(kernel=one) for one in kernels)
    return Partition(name=name, kernels=uses, launch_points=launch, comm_sms=sms)


def _op(*whole: Partition, split: tuple[Partition, ...] = (), kind: OpKind = OpKind.FORWARD) -> WorkloadOp:
    return WorkloadOp(
        stage=0,
        chunk=0,
        kind=kind,
        partitions=tuple(PartitionUse(partition=one, count=3) for one in whole),
        split=tuple(PartitionUse(partition=one, count=3 if one in whole else 6) for one in split),
    )


def test_launch_points_are_numbered_where_a_kernel_runs_again() -> None:
    assert launch_names(_partition(NORM, PRODUCT, TALK, NORM)) == ("norm", "mm", "norm_2")


def test_a_partition_alone_has_one_configuration_and_others_a_product() -> None:
    assert configurations(_partition(NORM)) == (PLAIN,)
    found = configurations(_partition(NORM, PRODUCT, TALK, launch=("norm", "mm"), sms=(4, 8)))
    assert found[0] == PLAIN
    assert {(one.comm_launch, one.comm_sms) for one in found[1:]} == {
        (launch, sms) for launch in ("norm", "mm") for sms in (None, 4, 8)
    }


def test_a_composite_holds_its_kernels_and_where_the_communication_begins() -> None:
    partition = _partition(NORM, TALK, PRODUCT, NORM, launch=("norm_2",), sms=(4,))
    config = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="norm_2", comm_sms=4)
    kernel = composite(OpKind.FORWARD, partition, 2, config).kernel
    assert kernel.overlap is not None
    assert [use.kernel.name for use in kernel.overlap.compute] == ["norm", "mm", "norm"]
    assert kernel.overlap.launch == 2
    assert kernel.overlap.communication is not None
    assert kernel.communication == kernel.overlap.communication.communication
    assert kernel.communication is not None and kernel.communication.sms == 4
    assert kernel.flops == 2 * 1e6 + 1e9
    assert kernel.memory_bytes == 3 * 1e6 + 2e6


@pytest.mark.parametrize("kernels", [(NORM, PRODUCT, TALK), (NORM, PRODUCT)])
def test_a_launch_point_that_is_not_there_is_named(kernels: tuple[Kernel, ...]) -> None:
    config = PartitionConfig(execution=Execution.OVERLAPPED, comm_launch="rope")
    with pytest.raises(WorkloadError, match="partition p has no launch point 'rope'; it has norm, mm"):
        composite(OpKind.FORWARD, _partition(*kernels), 2, config)


def test_what_overlaps_as_it_is_is_measured_overlapped_alone() -> None:
    """One kernel after the other is the sum of kernels that are measured anyway."""
    op = _op(_partition(NORM, TALK, launch=("norm",), sms=(4,)), _partition(PRODUCT, name="q"))
    found = with_composites(Workload(name="w", ops=(op,), stages=1)).composites
    assert {(one.partition, one.nanobatches, one.config.comm_sms) for one in found} == {
        ("p", 1, None),
        ("p", 1, 4),
    }
    assert all(one.config.execution is Execution.OVERLAPPED for one in found)


def test_all_of_a_cut_form_but_what_runs_whole_is_measured() -> None:
    half = replace(PRODUCT, flops=PRODUCT.flops / 2)
    whole, extra = _partition(PRODUCT, TALK), _partition(PRODUCT, name="extra")
    op = _op(whole, extra, split=(_partition(half, TALK, launch=("mm",)), _partition(half, name="r"), extra))
    assert [use.partition.name for use in only_cut(op)] == ["p", "r"]
    workload = with_composites(Workload(name="w", ops=(op,), stages=1))
    assert [(one.partition, one.nanobatches, str(one.config.execution)) for one in workload.composites] == [
        ("p", 2, "sequential"),
        ("p", 2, "overlapped"),
        ("r", 2, "sequential"),
    ]
    assert {use.count for use, _ in composites_of(op, workload.composites)} == {6}


def test_work_that_two_partitions_share_is_measured_once() -> None:
    first, again = (_partition(NORM, TALK, launch=("norm",), name=name) for name in ("p", "p_recompute"))
    ops = (_op(first), _op(again, kind=OpKind.BACKWARD))
    workload = with_composites(Workload(name="w", ops=ops, stages=1))
    assert [(one.kind, one.partition) for one in workload.composites] == [
        ("forward", "p"),
        ("backward", "p_recompute"),
    ]
    assert len({one.kernel.name for one in workload.composites}) == 1
    assert len(workload.kernels()) == 3  # norm, sum, and the two beside each other
    assert [use.partition.name for op in ops for use, _ in composites_of(op, workload.composites)] == [
        "p",
        "p_recompute",
    ]


def test_sm_counts_go_where_communication_overlaps_and_none_are_named() -> None:
    named, open_ = (
        _partition(NORM, TALK, launch=("norm",), name=name, sms=sms) for name, sms in (("a", (5,)), ("b", ()))
    )
    op = _op(named, open_, _partition(PRODUCT, name="c"))
    (found,) = with_sm_counts(Workload(name="w", ops=(op,), stages=1), (3, 6)).ops
    assert [use.partition.comm_sms for use in found.partitions] == [(5,), (3, 6), ()]


def test_every_composite_of_a_transformer_has_a_name_of_its_own(
    workload: Callable[..., Workload],
) -> None:
    built = with_composites(workload(tensor_parallel=2, comm_sms=(4,), recompute="full", stages=2))
    names = [one.name for one in built.kernels()]
    assert len(names) == len(set(names))
    keys = {(one.kind, one.partition, one.nanobatches, one.config) for one in built.composites}
    assert len(keys) == len(built.composites)
    expected = {
        (op.kind, use.partition.name, 2, config)
        for op in built.ops
        for use, _ in overlappable(op)
        for config in configurations(use.partition)
    }
    assert keys == expected
