"""A user's own function: what it may return, and what of it is refused in one line."""

import math
import sys
from pathlib import Path

import pytest

from energyopt.profiler.workloads.check import check_workload
from energyopt.profiler.workloads.interface import (
    Kernel,
    KernelUse,
    Partition,
    PartitionUse,
    Workload,
    WorkloadOp,
)
from energyopt.profiler.workloads.user import user_workload
from energyopt.schemas.errors import WorkloadError
from energyopt.schemas.ops import OpKind


def _op(*kernels: Kernel, stage: int = 0, kind: OpKind = OpKind.FORWARD, count: int = 1) -> WorkloadOp:
    partition = Partition(name="all", kernels=tuple(KernelUse(kernel=one) for one in kernels))
    return WorkloadOp(
        stage=stage, chunk=0, kind=kind, partitions=(PartitionUse(partition=partition, count=count),)
    )


def _kernel(name: str = "mm", flops: float = 1e9, memory_bytes: float = 1e6) -> Kernel:
    return Kernel(name=name, flops=flops, memory_bytes=memory_bytes)


def test_a_sound_workload_is_left_as_it_is() -> None:
    ops = (_op(_kernel()), _op(_kernel(), _kernel("norm", 0.0), kind=OpKind.BACKWARD, count=3))
    workload = Workload(name="mine", ops=ops, stages=1)
    assert check_workload("m:f", workload) is workload


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        (_op(_kernel(flops=math.nan)), "kernel mm has flops nan"),
        (_op(_kernel(memory_bytes=math.inf)), "kernel mm has memory_bytes inf"),
        (_op(_kernel(flops=-1.0)), "kernel mm has flops -1.0"),
        (_op(_kernel(), _kernel(flops=2e9)), "'mm' means two different kernels"),
        (_op(_kernel(), stage=1), "stage 1, chunk 0 is beyond the workload's 1 stages"),
        (_op(_kernel(), kind="sideways"), "'sideways' is no kind"),  # type: ignore[arg-type]
        (_op(_kernel(), count=0), "forward runs mm 1 x 0 times"),
        (_op(), "forward of stage 0 runs no kernel"),
    ],
)
def test_what_cannot_be_measured(op: WorkloadOp, complaint: str) -> None:
    with pytest.raises(WorkloadError, match=f"^m:f: .*{complaint}"):
        check_workload("m:f", Workload(name="mine", ops=(op,), stages=1))


def test_nothing_to_measure() -> None:
    with pytest.raises(WorkloadError, match="has no ops"):
        check_workload("m:f", Workload(name="mine", ops=(), stages=1))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("raise SystemExit(2)", "cannot import 'own_module_.*': SystemExit: 2"),
        ("def f(): raise SystemExit('usage')", "SystemExit: usage"),
        ("def f(): 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(): return 3", "returned int"),
    ],
)
def test_code_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    """A script that exits, as one that parses its arguments does, must not end the command as if all were well."""
    name = f"own_module_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(WorkloadError, match=complaint):
        user_workload(f"{name}:f")
    sys.modules.pop(name, None)
