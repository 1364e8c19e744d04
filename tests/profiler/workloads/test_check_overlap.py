"""What a user may say of overlap, and what of it is refused in one line."""

from dataclasses import replace
from typing import Any

import pytest

from energyopt.profiler.workloads.check import check_workload
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
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind

MM, NORM = (Kernel(name=name, flops=1e9, memory_bytes=1e6) for name in ("mm", "norm"))
HALF = replace(MM, flops=MM.flops / 2)
TALK = Kernel(
    name="talk",
    flops=0.0,
    memory_bytes=1e6,
    communication=Communication(collective=Collective.ALL_REDUCE, message_bytes=1e6, group="data", ranks=2),
)


def _use(*kernels: Kernel, count: int = 1, name: str = "p", talks: int = 1, **more: Any) -> PartitionUse:
    uses = tuple(KernelUse(kernel=one, count=talks if one is TALK else 1) for one in kernels)
    return PartitionUse(partition=Partition(name=name, kernels=uses, **more), count=count)


def _op(*uses: PartitionUse, split: tuple[PartitionUse, ...] = (), **more: Any) -> WorkloadOp:
    values: dict[str, Any] = {"stage": 0, "chunk": 0, "kind": OpKind.FORWARD} | more
    return WorkloadOp(partitions=uses, split=split, **values)


def _workload(*ops: WorkloadOp, **more: Any) -> Workload:
    return Workload(**({"name": "mine", "ops": ops, "stages": 2, "replicas": 2} | more))


LAUNCH: dict[str, Any] = {"launch_points": ("mm",)}


def test_what_is_sound_is_left_as_it_is() -> None:
    extra = _use(MM, name="extra")
    cut = (_use(HALF, TALK, count=2, **LAUNCH, comm_sms=(4, 8)), extra)
    workload = _workload(
        _op(_use(MM, TALK), extra, split=cut),
        _op(_use(MM, TALK, NORM, launch_points=("mm", "norm")), kind=OpKind.BACKWARD),
    )
    assert check_workload("m:f", workload) is workload


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        (_op(_use(MM, TALK, NORM, launch_points=("rope",))), "no launch point 'rope'; it has mm, norm"),
        (_op(_use(MM, MM, TALK, launch_points=("mm_3",))), "no launch point 'mm_3'; it has mm, mm_2"),
        (_op(_use(TALK, launch_points=("mm",))), "no launch point 'mm'; it has no compute kernel"),
        (_op(_use(MM, **LAUNCH)), "partition p of forward has launch points and no communication"),
        (_op(_use(MM, TALK, talks=2, **LAUNCH)), "partition p of forward communicates 2 times"),
        (_op(_use(MM, TALK, comm_sms=(4, 0), **LAUNCH)), "has comm_sms 4, 0; give distinct counts"),
        (_op(_use(MM, TALK, comm_sms=(4, 4), **LAUNCH)), "has comm_sms 4, 4; give distinct counts"),
        (_op(_use(MM, TALK, **LAUNCH), _use(MM, TALK, **LAUNCH)), "partition p of forward stands twice"),
        (_op(_use(MM), split=(_use(HALF, count=2),)), "of stage 0 has no partition with launch points"),
        (
            _op(_use(MM, TALK), split=(_use(HALF, TALK, **LAUNCH), _use(name="q"))),
            "has a partition without kernels, q",
        ),
        (_op(_use(MM, TALK), split=(_use(HALF, TALK, count=0, **LAUNCH),)), "forward runs mm 1 x 0 times"),
        (
            _op(
                _use(MM, TALK),
                _use(MM, name="q"),
                split=(_use(HALF, TALK, **LAUNCH), _use(MM, count=2, name="q")),
            ),
            "runs q 2 times, the whole form 1 times",
        ),
        (
            _op(_use(MM, TALK), split=(_use(HALF, TALK, **LAUNCH), _use(MM, name="q"))),
            "'mm' means two different kernels",
        ),
        (_op(_use(MM, TALK), split=(_use(HALF, TALK, **LAUNCH),), nanobatches=1), "has 1 nanobatches"),
    ],
)
def test_what_cannot_overlap(op: WorkloadOp, complaint: str) -> None:
    with pytest.raises(WorkloadError) as found:
        check_workload("m:f", _workload(op))
    assert str(found.value).startswith("m:f: ")
    assert complaint in str(found.value)


def test_one_name_is_one_partition_on_all_stages() -> None:
    ops = (_op(_use(MM, TALK, **LAUNCH)), _op(_use(MM, NORM, TALK, **LAUNCH), stage=1))
    with pytest.raises(WorkloadError, match="partition p of forward means two different partitions"):
        check_workload("m:f", _workload(*ops))
    backward = replace(ops[1], kind=OpKind.BACKWARD)
    assert check_workload("m:f", _workload(ops[0], backward))


def test_replicas_that_communicate_are_counted() -> None:
    with pytest.raises(
        WorkloadError, match=r"between 2 replicas and the workload has 1; give Workload\(replicas=2\)"
    ):
        check_workload("m:f", _workload(_op(_use(MM, TALK)), replicas=1))
